package api

import (
	"strings"
	"testing"
	"unsafe"
)

// TestBegin: the client's software name must not keep its whole request in memory for the lifetime of the connection.
func TestBegin(t *testing.T) {
	for text, want := range map[string]string{"": "", "librdkafka": "librdkafka", strings.Repeat("x", 1<<20): strings.Repeat("x", 100)} {
		got := begin(text)
		if got != want {
			t.Errorf("%.20q: %q", text, got)
		}
		if got != "" && unsafe.StringData(got) == unsafe.StringData(text) {
			t.Errorf("the whole request of %.20q is retained", text)
		}
	}
}
