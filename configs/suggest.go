package configs

import "fmt"

// longestWord is far above what anybody mistypes.
const longestWord = 100

// suggest ends a message about an unknown word with the known word that it
// resembles, where there is one.
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

// distance is how many bytes must be added, dropped or changed to make b of a.
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
