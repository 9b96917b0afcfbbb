package config

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// golden reads the tab-separated lines of a recorded file, without its comments.
func golden(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows [][]string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if text := lines.Text(); text != "" && !strings.HasPrefix(text, "#") {
			rows = append(rows, strings.Split(text, "\t"))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// columns reads a file whose first line names the columns.
func columns(t *testing.T, name string) []map[string]string {
	t.Helper()
	rows := golden(t, name)
	var records []map[string]string
	for _, row := range rows[1:] {
		record := map[string]string{}
		for i, column := range rows[0] {
			record[column] = row[i]
		}
		records = append(records, record)
	}
	return records
}
