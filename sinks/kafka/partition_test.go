package kafka

import "testing"

// The expected values are those of Kafka's Java client.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, not %d", key, got, want)
		}
	}
}

func FuzzPartitionOf(f *testing.F) {
	f.Add([]byte("25769804127"), 12)
	f.Add([]byte(nil), 1)
	f.Fuzz(func(t *testing.T, key []byte, partitions int) {
		if partitions <= 0 {
			return
		}
		if got := partitionOf(key, partitions); got < 0 || got >= partitions {
			t.Errorf("partition %d of %d", got, partitions)
		}
	})
}
