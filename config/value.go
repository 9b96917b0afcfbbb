package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// parseValue parses text as a value of type t: bool, int64, float64, string or []string. The rules are Java's
// (ConfigDef.parseType, 3.9): blanks around a value are ignored, booleans are true or false in any case, numbers are
// decimal. The reason is empty on success.
func parseValue(t Type, text string) (value any, reason string) {
	trimmed := strings.TrimFunc(text, isJavaBlank)
	switch t {
	case Boolean:
		return parseBool(trimmed)
	case Int:
		return parseInt(trimmed, 32, "INT")
	case Short:
		return parseInt(trimmed, 16, "SHORT")
	case Long:
		return parseInt(trimmed, 64, "LONG")
	case Double:
		return parseDouble(trimmed)
	case List:
		return parseList(trimmed), ""
	case Class, String:
		return trimmed, ""
	default:
		return text, "" // a password may begin or end with a blank
	}
}

// isJavaBlank reports whether Java's String.trim removes a character.
func isJavaBlank(r rune) bool { return r <= ' ' }

func parseBool(text string) (any, string) {
	switch {
	case strings.EqualFold(text, "true"):
		return true, ""
	case strings.EqualFold(text, "false"):
		return false, ""
	}
	return nil, "must be true or false"
}

func parseInt(text string, bits int, name string) (any, string) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return nil, "not a number of the type " + name
	}
	return n, ""
}

// javaDouble matches what Java's Double.parseDouble accepts in decimal notation; Go accepts more (hexadecimal without
// exponent, underscores, inf) and less (the suffixes d and f).
var javaDouble = regexp.MustCompile(`^[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?)$`)

func parseDouble(text string) (any, string) {
	if !javaDouble.MatchString(text) {
		return nil, "not a number of the type DOUBLE"
	}
	if !strings.HasSuffix(text, "Infinity") {
		text = strings.TrimRight(text, "dDfF")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, "not a number of the type DOUBLE"
	}
	return f, ""
}

// parseList splits at commas; blanks around an element are ignored. Empty text is an empty list, but empty elements are
// kept.
func parseList(text string) []string {
	if text == "" {
		return []string{}
	}
	parts := strings.Split(text, ",")
	for i, p := range parts {
		parts[i] = strings.TrimFunc(p, isJavaBlank)
	}
	return parts
}

// format formats a parsed value as described by DescribeConfigs (ConfigDef.convertToString, 3.9).
func format(value any) string {
	switch v := value.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatDouble(v)
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

// formatDouble formats a number as Java's Double.toString does: plain from 0.001 up to 10,000,000, otherwise with an
// exponent, and always with a digit after the point.
func formatDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.Replace(fmt.Sprint(f), "Inf", "Infinity", 1), "+")
	}
	if abs := math.Abs(f); abs == 0 || abs >= 1e-3 && abs < 1e7 {
		return withFraction(strconv.FormatFloat(f, 'f', -1, 64))
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent)
	return withFraction(mantissa) + "E" + strconv.Itoa(n)
}

func withFraction(digits string) string {
	if strings.Contains(digits, ".") {
		return digits
	}
	return digits + ".0"
}

// check returns why a parsed value is refused, or an empty string.
type check func(value any) string

func atLeast(low float64) check {
	return func(value any) string {
		if number(value) < low {
			return "must be at least " + plain(low)
		}
		return ""
	}
}

func between(low, high float64) check {
	return func(value any) string {
		if n := number(value); n < low || n > high {
			return fmt.Sprintf("must be from %s to %s", plain(low), plain(high))
		}
		return ""
	}
}

func number(value any) float64 {
	if n, ok := value.(int64); ok {
		return float64(n)
	}
	return value.(float64)
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func oneOf(allowed ...string) check {
	return func(value any) string {
		for _, a := range allowed {
			if value == a {
				return ""
			}
		}
		return "must be one of " + strings.Join(allowed, ", ")
	}
}

func oneOfFold(allowed ...string) check {
	return func(value any) string {
		for _, a := range allowed {
			if strings.EqualFold(value.(string), a) {
				return ""
			}
		}
		return "must be one of " + strings.Join(allowed, ", ")
	}
}

func listOf(allowed ...string) check {
	one := oneOf(allowed...)
	return func(value any) string {
		for _, item := range value.([]string) {
			if one(item) != "" {
				return "may hold only " + strings.Join(allowed, ", ")
			}
		}
		return ""
	}
}

func notEmpty(value any) string {
	if value == "" {
		return "must not be empty"
	}
	return ""
}

func gzipLevel(value any) string {
	if n := value.(int64); n != -1 && (n < 1 || n > 9) {
		return "must be -1 or from 1 to 9"
	}
	return ""
}

func minusOneOrPositive(value any) string {
	if n := value.(int64); n != -1 && n < 1 {
		return "must be -1 or at least 1"
	}
	return ""
}

func aVersion(value any) string {
	if _, ok := parseProtocolVersion(value.(string)); !ok {
		return "not a known version"
	}
	return ""
}

// throttledPair matches an entry of throttled replicas: partition:broker.
var throttledPair = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

// throttledReplicas accepts partition:broker pairs, or * alone for all (ThrottledReplicaListValidator, 3.9).
func throttledReplicas(value any) string {
	items := value.([]string)
	if len(items) == 1 && items[0] == "*" {
		return ""
	}
	for _, item := range items {
		if !throttledPair.MatchString(item) {
			return "must be * or a list of partition:broker"
		}
	}
	return ""
}

// millis converts milliseconds to a duration. What does not fit into a Duration (292 years) becomes the longest one:
// both mean never.
func millis(ms int64) time.Duration {
	return scaled(ms, time.Millisecond)
}

func scaled(n int64, unit time.Duration) time.Duration {
	switch {
	case n > math.MaxInt64/int64(unit):
		return math.MaxInt64
	case n < math.MinInt64/int64(unit):
		return math.MinInt64
	}
	return time.Duration(n) * unit
}
