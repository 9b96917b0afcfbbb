package kerberos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/types"
)

// TestFilesThatAreCutShort: a keytab that is incomplete, or any other content, causes no more than an error.
func TestFilesThatAreCutShort(t *testing.T) {
	whole, err := keysOf(t, "secret").Marshal()
	if err != nil {
		t.Fatal(err)
	}
	conf := configuration(t, "127.0.0.1:1")
	for size := range whole {
		for _, end := range []string{"", "\xff\xff\xff\xff\xff"} {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, append(append([]byte{}, whole[:size]...), end...), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _ = openService(defaults(), file, servicePart, new(ReplayCache))
			_, _ = OpenKeytab(Source{File: conf}, file, servicePart, nil)
			_, _ = openCache(Source{File: conf}, file, nil)
			_, _ = readConfiguration(Source{File: file})
		}
	}
}

// FuzzFiles: no content of a file causes more than an error.
func FuzzFiles(f *testing.F) {
	keys, err := keysOf(f, "secret").Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(keys)
	f.Add([]byte{5, 4, 0, 12, 0, 1, 0, 8})
	f.Add([]byte("[libdefaults]\n default_realm = A\n[realms]\n A = {\n"))
	conf := configuration(f, "127.0.0.1:1")
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := openService(defaults(), file, servicePart, new(ReplayCache)); err == nil {
			_, _, _ = s.current().GetEncryptionKey(types.NewPrincipalName(nametype.KRB_NT_SRV_INST, servicePart), realm, 1, 18)
		}
		_, _ = openCache(Source{File: conf}, file, nil)
		_, _ = readConfiguration(Source{File: file})
	})
}

// TestTypeBeforeAPath: names of keytabs and ticket caches may have the prefixes of Java and MIT's library.
func TestTypeBeforeAPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keytab")
	writeKeys(t, file, keysOf(t, "secret"))
	for _, name := range []string{file, "FILE:" + file, "file:" + file} {
		if _, err := openService(defaults(), name, servicePart, new(ReplayCache)); err != nil {
			t.Error(err)
		}
		u, err := OpenKeytab(Source{File: configuration(t, "127.0.0.1:1")}, name, servicePart, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		u.Close()
	}
	if _, err := openCache(Source{File: configuration(t, "127.0.0.1:1")}, "FILE:"+file, nil); err == nil || !strings.HasPrefix(err.Error(), file+":") {
		t.Errorf("a ticket cache: %v", err)
	}
}
