package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/magiconair/properties"
)

// ReadProperties reads a Java properties file: comments, continued lines, escapes, any of
// "=", ":" and blank between key and value. ${...} is left as it is. Of a key that is there
// twice the last value counts.
func ReadProperties(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("config: cannot read %s: %w", path, err)
	}
	props, err := parseProperties(data)
	if err != nil {
		return nil, fmt.Errorf("config: cannot read %s: %w", path, err)
	}
	return props, nil
}

func parseProperties(data []byte) (map[string]string, error) {
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	p, err := loader.LoadBytes(data)
	if err != nil {
		return nil, err
	}
	return p.Map(), nil
}

// applyOverrides sets key=value pairs of the command line.
func applyOverrides(props map[string]string, overrides []string) error {
	for _, pair := range overrides {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return fmt.Errorf("config: --override %s: must be key=value", pair)
		}
		props[key] = value
	}
	return nil
}
