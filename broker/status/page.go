package status

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed page.html
var page string

// policy allows the page to run its own script and to ask its own broker, and nothing else: even a name that was
// interpreted as markup would do nothing.
func policy() string {
	_, rest, _ := strings.Cut(page, "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Page serves the HTML page.
func Page() http.Handler {
	policy := policy()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		head(w, "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write([]byte(page))
	})
}

// ServeHTTP serves the newest Snapshot as JSON.
func (b *Board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head(w, "application/json")
	_, _ = w.Write(b.JSON(r.Context()))
}

func head(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
