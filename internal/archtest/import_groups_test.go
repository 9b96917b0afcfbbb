package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestImportsAreGrouped: the imports of the standard library come first, then those of this module, then all others,
// with an empty line between the groups.
func TestImportsAreGrouped(t *testing.T) {
	eachGoFile(t, func(path string) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		line := func(spec *ast.ImportSpec) int { return files.Position(spec.Pos()).Line }
		for i := 1; i < len(file.Imports); i++ {
			before, spec := file.Imports[i-1], file.Imports[i]
			group, last := importGroup(spec), importGroup(before)
			if apart := line(spec)-line(before) > 1; group < last || apart != (group != last) {
				t.Errorf("%s: the imports are not grouped: standard library, this module, others", files.Position(spec.Pos()))
				return
			}
		}
	})
}

// importGroup returns the number of the group that an import belongs to.
func importGroup(spec *ast.ImportSpec) int {
	path, _ := strconv.Unquote(spec.Path.Value)
	first, _, _ := strings.Cut(path, "/")
	switch {
	case first == "barnabas":
		return 1
	case strings.Contains(first, "."):
		return 2
	}
	return 0
}
