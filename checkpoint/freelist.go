package checkpoint

import bolt "go.etcd.io/bbolt"

// maxListed is how many free pages are listed in the file.
const maxListed = 1024

// keepFreelist has the next transaction write the list of free pages, so that a
// start after a kill need not look for them in all pages, while the list is so
// short that it costs little. It belongs to whoever writes to db.
func keepFreelist(db *bolt.DB) {
	stats := db.Stats()
	db.NoFreelistSync = stats.FreePageN+stats.PendingPageN > maxListed
}
