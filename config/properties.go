package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"barnabas/internal/javaprops"
)

// ReadProperties reads a properties file as Apache Kafka does.
func ReadProperties(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("config: cannot read %s: %w", path, err)
	}
	props, err := javaprops.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("config: cannot read %s: %w", path, err)
	}
	return props, nil
}

// applyOverrides sets key=value pairs from the command line.
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
