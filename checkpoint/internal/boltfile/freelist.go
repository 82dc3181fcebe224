package boltfile

import bolt "go.etcd.io/bbolt"

// maxListed is how many free pages are listed in the file at most.
const maxListed = 1024

// KeepFreelist makes the next transaction write the list of free pages, so that a start
// after a kill need not scan all pages for them, as long as the list is so short that
// writing it costs little. Only the goroutine that writes to db may call it.
func KeepFreelist(db *bolt.DB) {
	stats := db.Stats()
	db.NoFreelistSync = stats.FreePageN+stats.PendingPageN > maxListed
}
