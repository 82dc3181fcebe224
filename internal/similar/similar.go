// Package similar finds the known word that a mistyped one stands for.
package similar

import "strings"

// Nearest returns the known word that is most similar to word, the first of several, or ""
// if none is similar enough to be meant: a third of the word may differ, and at most three
// bytes. Capitals do not matter. A word of more than 100 bytes is similar to none.
func Nearest(word string, known []string) string {
	const longest, most = 100, 3
	if len(word) > longest {
		return ""
	}
	best, least := "", min(max(len(word)/3, 1), most)+1
	for _, candidate := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the number of bytes to add, remove or change to turn a into b; a
// swap of neighbours counts as one.
func distance(a, b string) int {
	var before, row []int
	next := make([]int, len(b)+1)
	for j := range next {
		next[j] = j
	}
	for i := range len(a) {
		before, row, next = row, next, make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			changed := row[j]
			if a[i] != b[j] {
				changed++
			}
			next[j+1] = min(changed, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
	}
	return next[len(b)]
}
