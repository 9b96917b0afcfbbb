package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"barnabas/internal/javaprops"
)

const (
	providersKey     = "config.providers"
	providerClasses  = "org.apache.kafka.common.config.provider."
	allowedPathsKey  = "allowed.paths"
	allowlistPattern = "allowlist.pattern"
)

// variable matches ${provider:key} and ${provider:path:key} (ConfigTransformer, 3.9).
var variable = regexp.MustCompile(`\$\{([^:}]*):(?:([^:}]*):)?([^}]*)\}`)

// provider finds the value of a key. The error says why there is none.
type provider func(path, key string) (value string, err error)

var errNoSuchKey = errors.New("it has no such key")

// ResolveVariables replaces the variables in values by what the providers named by config.providers have for them
// (KIP-297, KIP-421). Variables of other providers stay as they are. The providers are those of Apache Kafka: files of
// properties, directories with a file for each key, and environment variables. Unlike there, a variable without a value
// is an error, since the value would otherwise be taken for what it names.
func ResolveVariables(props map[string]string) (map[string]string, error) {
	providers, err := openProviders(props)
	if err != nil || len(providers) == 0 {
		return props, err
	}
	resolved := maps.Clone(props)
	for _, key := range slices.Sorted(maps.Keys(props)) {
		if isProviderSetting(key) {
			continue
		}
		if resolved[key], err = replaceVariables(props[key], providers); err != nil {
			return nil, &Error{Key: key, Reason: err.Error()}
		}
	}
	return resolved, nil
}

// resolveDynamic replaces the variables in a setting that was given at run time, with the providers of the file.
func resolveDynamic(name, value string, file map[string]string) (string, error) {
	if file[providersKey] == "" || !variable.MatchString(value) {
		return value, nil
	}
	providers, err := openProviders(file)
	if err != nil {
		return "", err
	}
	value, err = replaceVariables(value, providers)
	if err != nil {
		return "", &Error{Key: name, Reason: err.Error()}
	}
	return value, nil
}

// isProviderSetting reports whether a key defines a provider. No schema has these keys.
func isProviderSetting(key string) bool {
	return key == providersKey || strings.HasPrefix(key, providersKey+".")
}

func replaceVariables(text string, providers map[string]provider) (string, error) {
	var failed error
	replaced := variable.ReplaceAllStringFunc(text, func(whole string) string {
		parts := variable.FindStringSubmatch(whole)
		find := providers[parts[1]]
		if find == nil {
			return whole
		}
		value, err := find(parts[2], parts[3])
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s has no value: %w", whole, err)
		}
		return value
	})
	return replaced, failed
}

// openProviders returns the providers by name.
func openProviders(props map[string]string) (map[string]provider, error) {
	providers := make(map[string]provider)
	for _, name := range splitCSV(props[providersKey]) {
		key := providersKey + "." + name + ".class"
		class := strings.TrimFunc(props[key], isJavaBlank)
		param := func(of string) string { return props[providersKey+"."+name+".param."+of] }
		var err error
		switch strings.TrimPrefix(class, providerClasses) {
		case "FileConfigProvider":
			providers[name], err = filesOfProperties(param(allowedPathsKey))
		case "DirectoryConfigProvider":
			providers[name], err = directoriesOfFiles(param(allowedPathsKey))
		case "EnvVarConfigProvider":
			providers[name], err = environmentVariables(param(allowlistPattern))
		default:
			err = &Error{Key: key, Value: class, Reason: "no class can be loaded here, only FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider of Apache Kafka are available"}
		}
		if err != nil {
			return nil, err
		}
	}
	return providers, nil
}

func filesOfProperties(allowed string) (provider, error) {
	paths, err := parseAllowedPaths(allowed)
	read := make(map[string]map[string]string)
	return func(path, key string) (string, error) {
		if err := paths.check(path); err != nil {
			return "", err
		}
		if read[path] == nil {
			data, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			if read[path], err = javaprops.ParseUTF8(data); err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
		}
		value, ok := read[path][key]
		if !ok {
			return "", errNoSuchKey
		}
		return value, nil
	}, err
}

func directoriesOfFiles(allowed string) (provider, error) {
	paths, err := parseAllowedPaths(allowed)
	return func(path, key string) (string, error) {
		if err := paths.check(path); err != nil {
			return "", err
		}
		if key == "" || filepath.Base(key) != key {
			return "", errNoSuchKey
		}
		data, err := os.ReadFile(filepath.Join(path, key))
		return string(data), err
	}, err
}

func environmentVariables(pattern string) (provider, error) {
	allowed, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, &Error{Key: providersKey, Reason: allowlistPattern + ": " + err.Error()}
	}
	return func(path, key string) (string, error) {
		if path != "" {
			return "", errors.New("an environment variable has no path")
		}
		value, set := os.LookupEnv(key)
		if !set || pattern != "" && !allowed.MatchString(key) {
			return "", errors.New("there is no such environment variable, or " + allowlistPattern + " excludes it")
		}
		return value, nil
	}, nil
}

// allowedPaths are the directories and files that a provider may read; nil: all.
type allowedPaths []string

func parseAllowedPaths(text string) (allowedPaths, error) {
	var paths allowedPaths
	for _, path := range splitCSV(text) {
		if !filepath.IsAbs(path) {
			return nil, &Error{Key: providersKey, Reason: allowedPathsKey + ": " + path + " is not absolute"}
		}
		if _, err := os.Stat(path); err != nil {
			return nil, &Error{Key: providersKey, Reason: allowedPathsKey + ": " + err.Error()}
		}
		paths = append(paths, filepath.Clean(path))
	}
	return paths, nil
}

func (p allowedPaths) check(path string) error {
	clean := filepath.Clean(path)
	switch {
	case path == "":
		return errors.New("it names no file")
	case p == nil || slices.ContainsFunc(p, func(root string) bool {
		return clean == root || strings.HasPrefix(clean, strings.TrimSuffix(root, "/")+"/")
	}):
		return nil
	}
	return errors.New(allowedPathsKey + " excludes " + path)
}
