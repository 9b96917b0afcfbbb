package kafkatest_test

import (
	"testing"

	"barnabas/kafkatest"
)

// BenchmarkRun measures the start of a broker with its embedded ZooKeeper, until it answers clients.
func BenchmarkRun(b *testing.B) {
	for range b.N {
		kafkatest.Run(b)
	}
}
