package tools

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"barnabas/logstore/record"
)

// logSamples contains log directories of Apache Kafka.
const logSamples = "../logstore/testdata/"

func TestDumpLogPrintsWhatTheOriginalPrints(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Abs(logSamples)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range readGolden(t, "testdata/dump-log.txt") {
		words := strings.Fields(run.line)
		t.Run(strings.Join(words[1:], " "), func(t *testing.T) {
			t.Parallel()
			for i, word := range words {
				if strings.HasPrefix(word, "logdir") {
					words[i] = logSamples + strings.ReplaceAll(word, ",", ","+logSamples)
				}
			}
			out := runTool(t, t.Context(), "", words[0], words[1:]...)
			diff(t, "standard output", run.stdout, strings.ReplaceAll(out.stdout, logSamples, ""))
			stderr := strings.ReplaceAll(out.stderr, samples+"/", "DIR/")
			diff(t, "standard error", run.stderr, strings.ReplaceAll(stderr, logSamples, ""))
			if code := strconv.Itoa(out.code); code != run.code {
				t.Errorf("exit code %s, recorded %s", code, run.code)
			}
		})
	}
}

// FuzzDumpFiles: a file may contain anything. What cannot be read is an error.
func FuzzDumpFiles(f *testing.F) {
	for _, name := range []string{"codec-none-0/00000000000000000000.log", "txn-0/00000000000000000003.txnindex", "txn-0/00000000000000000018.snapshot",
		"segmented-0/00000000000000000056.index", "segmented-0/00000000000000000056.timeindex"} {
		data, err := os.ReadFile(logSamples + "logdir/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		var files []string
		for _, ext := range []string{".log", ".index", ".timeindex", ".txnindex", ".snapshot"} {
			file := filepath.Join(dir, "00000000000000000000"+ext)
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		for _, file := range files {
			var out strings.Builder
			env := &Env{Stdout: &out, Stderr: &out}
			d := &dumpOptions{deep: true, contents: true, maxBytes: math.MaxInt32,
				parse: func(r *record.Record) (*string, *string) {
					return decodeNullable(r.Key, nil), decodeNullable(r.Value, nil)
				}}
			_ = dumpFiles(t.Context(), env, d, []string{file}) // an error is fine, a panic is not
		}
	})
}
