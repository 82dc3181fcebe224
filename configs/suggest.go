package configs

import "fmt"

// longestWord is the length in bytes up to which words are compared and shown.
const longestWord = 100

// suggest returns the end of a message about an unknown word: a question whether a similar
// known word was meant, or "" if none is similar.
func suggest(word string, known []string) string {
	if len(word) > longestWord {
		return ""
	}
	best, least := "", min(max(len(word)/3, 1), 3)+1
	for _, candidate := range known {
		if d := distance(word, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance returns the edit distance between a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
