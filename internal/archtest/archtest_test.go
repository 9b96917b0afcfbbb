// Package archtest contains the map of which package may import which, and fails if the code does not follow it, or is not
// consistent in other ways that can be checked.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport lists for each package of the module which others it may import. A package that is not listed fails the
// test: adding one is a decision. Packages in internal may be imported by all, and import only each other.
var mayImport = map[string][]string{
	"internal":         {},
	"config":           {},
	"network/keystore": {},
	"network/ssl":      {"network/keystore"},
	"network/kerberos": {},
	"network/oauth":    {"network/ssl"},
	"network/sasl":     {"network/kerberos", "network/oauth"},
	"network":          {"network/sasl"},
	"logstore/record":  {},
	"logstore":         {"logstore/record"},
	"zkcoord/zkserver": {},
	"zkcoord/zklogin":  {"network/kerberos"},
	"zkcoord/zktest":   {"zkcoord", "zkcoord/zkserver"},                           // for tests
	"zkcoord/zksim":    {"zkcoord", "zkcoord/zkserver"},                           // for simulations and tests
	"zkcoord":          {"zkcoord/zklogin", "zkcoord/zktest", "zkcoord/zkserver"}, // in tests
	"controller":       {"zkcoord", "zkcoord/zktest", "zkcoord/zkserver"},
	"controller/sim":   {"controller", "zkcoord", "zkcoord/zksim", "broker/metadata"},
	"broker/metadata":  {},
	"broker/replica":   {"logstore", "logstore/record"},
	"broker/group":     {"logstore", "logstore/record"},
	"broker/txn":       {"logstore", "logstore/record"},
	"broker/acl":       {"zkcoord"},
	"broker/quota":     {},
	"broker/token":     {"zkcoord"},
	"broker/metrics":   {},
	"broker/status":    {},
	"broker/api":       {"config", "network", "controller", "zkcoord", "logstore", "logstore/record", "broker/metadata", "broker/replica", "broker/group", "broker/txn", "broker/acl", "broker/quota", "broker/token", "broker/metrics"},
	"broker":           {"config", "network", "network/kerberos", "network/oauth", "network/sasl", "network/ssl", "controller", "zkcoord", "zkcoord/zklogin", "zkcoord/zktest", "zkcoord/zksim", "zkcoord/zkserver", "logstore", "logstore/record", "broker/metadata", "broker/replica", "broker/group", "broker/txn", "broker/acl", "broker/quota", "broker/token", "broker/metrics", "broker/status", "broker/api"},
	"kafkatest":        {"broker", "config", "zkcoord/zkserver", "logstore/record"},
	"tools":            {"config", "broker/acl", "broker/quota", "network/kerberos", "network/oauth", "network/ssl", "zkcoord", "zkcoord/zklogin", "logstore", "logstore/record", "kafkatest"},
	"cmd/kafka":        {"broker", "config", "tools", "zkcoord/zkserver"},
	"integration":      {"network", "network/kerberos", "zkcoord/zklogin", "kafkatest", "logstore", "logstore/record", "zkcoord/zkserver"},
}

// place maps a directory to the entry of the map that contains it.
func place(dir string) (string, bool) {
	for p := dir; p != "."; p = filepath.ToSlash(filepath.Dir(p)) {
		if _, ok := mayImport[p]; ok {
			return p, true
		}
	}
	return "", false
}

func TestImportsFollowTheMap(t *testing.T) {
	eachGoFile(t, func(path string) { checkImports(t, path) })
}

// root is the module's directory.
var root = filepath.Join("..", "..")

// eachGoFile calls check for every Go file of the module, including tests.
func eachGoFile(t *testing.T, check func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "build") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".go" {
			check(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkImports(t *testing.T, path string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	rel, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		t.Error(err)
		return
	}
	from, ok := place(filepath.ToSlash(rel))
	if !ok {
		t.Errorf("%s is in no package of the map", path)
		return
	}
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		inModule, ok := strings.CutPrefix(imported, "barnabas/")
		if !ok {
			continue
		}
		to, _ := place(inModule)
		if to == from || to == "internal" {
			continue
		}
		if !slices.Contains(mayImport[from], to) {
			t.Errorf("%s: %s may not import %s: the map of this test says who may import whom", path, from, inModule)
		}
	}
}
