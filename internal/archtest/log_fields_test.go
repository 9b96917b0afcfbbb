package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestLogFieldsHaveNamesOfLogx: each log field has the same name in every package.
func TestLogFieldsHaveNamesOfLogx(t *testing.T) {
	eachGoFile(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			checkLogFields(t, path)
		}
	})
}

func checkLogFields(t *testing.T, path string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Error(err)
		return
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch method.Sel.Name {
		case "WithField":
			checkName(t, files, call.Args[0])
		case "WithFields":
			if fields, ok := call.Args[0].(*ast.CompositeLit); ok {
				for _, f := range fields.Elts {
					if pair, ok := f.(*ast.KeyValueExpr); ok {
						checkName(t, files, pair.Key)
					}
				}
			}
		}
		return true
	})
}

func checkName(t *testing.T, files *token.FileSet, name ast.Expr) {
	if literal, ok := name.(*ast.BasicLit); ok {
		t.Errorf("%s: the field %s of a log line is not of package logx", files.Position(literal.Pos()), literal.Value)
	}
}
