// Package boltfile opens, checks and sums up the files of bbolt. It holds everything that
// depends on bbolt's file format or on how bbolt fails; what the buckets mean is up to the
// caller.
//
// # Why bbolt's own check does not serve
//
// bbolt maps the file into memory and trusts it. A damaged page makes it panic, and a file
// that was cut short makes the system kill the process with SIGBUS. So a file that was not
// closed cleanly is read through before bbolt may use it. bbolt's Tx.Check looks like the
// function for that, but it assumes a file that bbolt can read:
//
//   - It reads the mapped file itself, in a goroutine of its own, where no caller can turn
//     a memory fault into an error (see Guard): a file that was cut short kills the process.
//   - It follows offsets and sizes of keys wherever they point, and a page that refers to a
//     page above it recurses until the stack overflows, from which no program recovers.
//   - It first loads the list of free pages, whose length it takes from the file.
//   - It does not read values, so it finds no entry whose value lies outside its page.
//   - It cannot know whether all pages are from the same moment. bbolt reuses pages, so a
//     copy made while the file was being written can be sound in every page and still mix
//     several moments.
//   - It keeps an entry for every page.
//
// Check reads the file with ordinary reads, trusts no number in it, and needs one bit for
// each page. It checks that every page is of the kind it claims, is used once, lies within
// the file, points within itself and has its keys in order, and that no page is both free
// and in use. While it reads, it computes the sum of the entries, which is compared with the
// one that every transaction stores (see Tx). It requires more than Tx.Check: whatever Check
// accepts, Tx.Check accepts too, except pages that are neither free nor in use, which cost
// space and nothing else. The tests hold the two against each other, with Tx.Check as the
// reference.
//
// # Why there is a sum
//
// A file holds the sum over all entries of all its buckets, except those of MetaBucket, which
// holds the sum. It is the sum of the entries' own sums, each over the path of the bucket, the
// key and the value, so that the cost of a change is proportional to the change. It reveals a
// copy that mixes several moments, and two files with the same sum have the same entries.
//
// # Records
//
// What a transaction changes can be recorded (see Tx.Record), and made again in another file
// (see Tx.Apply). All changes go through Table, so that none is left out. Since every record
// holds the sum of the entries after it, a file that has come to differ is found out by the
// next record.
//
// # How bbolt fails
//
// Guard turns panics and memory faults into ErrUnreadable. If bbolt panics while a transaction
// begins, it keeps its locks: ErrStuck means that the database must not be used again, not
// even to close it.
package boltfile
