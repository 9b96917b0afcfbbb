package kafkatest_test

import (
	"testing"

	"barnabas/kafkatest"
)

// BenchmarkRun starts a broker, with its ZooKeeper, that answers clients.
func BenchmarkRun(b *testing.B) {
	for range b.N {
		kafkatest.Run(b)
	}
}
