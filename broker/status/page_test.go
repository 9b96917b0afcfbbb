package status

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// schemes returns the page's colors by name, for the light and the dark scheme.
func schemes(t *testing.T) map[string]map[string]string {
	t.Helper()
	light, dark, ok := strings.Cut(page, "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("there is no dark scheme")
	}
	dark, _, _ = strings.Cut(dark, "* {")
	found := make(map[string]map[string]string)
	for name, text := range map[string]string{"light": light, "dark": dark} {
		found[name] = make(map[string]string)
		for _, m := range regexp.MustCompile(`--(\w+): (#[0-9a-f]{3,6})`).FindAllStringSubmatch(text, -1) {
			found[name][m[1]] = m[2]
		}
	}
	return found
}

// luminance is the relative luminance of a color, #rgb or #rrggbb (WCAG 2.2).
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	hex := strings.TrimPrefix(color, "#")
	if len(hex) == 3 {
		hex = fmt.Sprintf("%c%[1]c%c%[2]c%c%[3]c", hex[0], hex[1], hex[2])
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// TestColorsCanBeToldApart: text has the contrast that WCAG 2.2 requires at level AA (4.5), graphics that of 3.
func TestColorsCanBeToldApart(t *testing.T) {
	for scheme, colors := range schemes(t) {
		for _, pair := range []struct {
			ink, paper string
			least      float64
		}{
			{"ink", "bg", 4.5}, {"ink", "card", 4.5}, {"soft", "bg", 4.5}, {"soft", "card", 4.5}, {"good", "card", 4.5}, {"good", "bg", 4.5},
			{"bad", "card", 4.5}, {"bad", "bg", 4.5}, {"warn", "card", 4.5}, {"warn", "bg", 4.5}, {"bar", "card", 3}, {"bar", "bg", 3},
		} {
			a, b := luminance(t, colors[pair.ink]), luminance(t, colors[pair.paper])
			if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < pair.least {
				t.Errorf("%s: %s on %s has a contrast of %.1f, less than %v", scheme, pair.ink, pair.paper, contrast, pair.least)
			}
		}
	}
}

// TestPageAsksNobodyElse: the page loads nothing from elsewhere, and inserts text only as text, never as markup.
func TestPageAsksNobodyElse(t *testing.T) {
	for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "<link", "<img", "src="} {
		if strings.Contains(page, forbidden) {
			t.Errorf("the page contains %s", forbidden)
		}
	}
}
