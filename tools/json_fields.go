package tools

import "fmt"

// jsonField is a field of a file that must be there: its zero value would be another topic, partition or offset than
// the one that was forgotten.
type jsonField struct {
	name  string
	given bool
}

// requireFields reports the first field that is missing.
func requireFields(fields ...jsonField) error {
	for _, f := range fields {
		if !f.given {
			return fmt.Errorf("no such field exists: `%s`", f.name)
		}
	}
	return nil
}
