package main

import (
	"os"
	"path/filepath"
	"testing"

	"barnabas/tools"
)

func TestEveryToolHasItsLaunchers(t *testing.T) {
	names := []string{"kafka-server-start", "kafka-server-stop", "zookeeper-server-start", "zookeeper-server-stop"}
	for _, tool := range tools.All() {
		names = append(names, tool.Name)
	}
	for _, name := range names {
		for _, file := range []string{name, name + ".sh"} {
			info, err := os.Stat(filepath.Join("..", "..", "bin", file))
			if err != nil {
				t.Error(err)
			} else if info.Mode()&0o111 == 0 {
				t.Errorf("bin/%s cannot be run", file)
			}
		}
	}
}
