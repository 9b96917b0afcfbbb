package api

import (
	"strings"
	"testing"
	"unsafe"
)

// TestBegin: what a client says that it is does not keep its whole request in memory, as long as the connection lasts.
func TestBegin(t *testing.T) {
	for text, want := range map[string]string{"": "", "librdkafka": "librdkafka", strings.Repeat("x", 1<<20): strings.Repeat("x", 100)} {
		got := begin(text)
		if got != want {
			t.Errorf("%.20q: %q", text, got)
		}
		if got != "" && unsafe.StringData(got) == unsafe.StringData(text) {
			t.Errorf("%.20q is kept as a whole", text)
		}
	}
}
