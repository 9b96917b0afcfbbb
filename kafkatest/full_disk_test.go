package kafkatest_test

import (
	"net/http"
	"strings"
	"testing"

	"barnabas/internal/testport"
	"barnabas/internal/testwait"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestFullDirectoryIsReported: a log directory that rejects records because its disk is full is reported in the
// metrics, on the status page and by the readiness check.
func TestFullDirectoryIsReported(t *testing.T) {
	t.Parallel()
	addr := testport.Address(t)
	c := kafkatest.Run(t, kafkatest.Setting("metrics.listener", addr), kafkatest.Setting("log.dir.min.free.bytes", "9000000000000000000"))
	cl := client(t, c, kgo.ProducerBatchCompression(kgo.NoCompression()))
	createOn(t, cl, "t", 0)
	told := map[string]string{"/metrics": `barnabas_log_directory_full{logDirectory="` + c.Broker(0).LogDir() + `"} `, "/status.json": `"refuses":`, "/readyz": "ok\n"}
	check := func(full bool) {
		t.Helper()
		values := map[bool]map[string]string{
			false: {"/metrics": "0\n", "/status.json": "false", "/readyz": ""},
			true:  {"/metrics": "1\n", "/status.json": "true", "/readyz": "log directory " + c.Broker(0).LogDir() + " is full"},
		}[full]
		for path, prefix := range told {
			testwait.Until(t, path, func() bool { // the page is refreshed every second
				status, text := get(t, "http://"+addr+path)
				return status == http.StatusOK && strings.Contains(text, prefix+values[path])
			})
		}
	}
	check(false)
	for range 5 { // the free space is checked every 4 MiB
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: make([]byte, 900_000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	check(true)
}
