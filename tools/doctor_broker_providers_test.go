package tools

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/config"
	"barnabas/internal/testcert"

	"github.com/go-jose/go-jose/v4"
)

// TestDoctorOnProviders: whether a broker can reach and trust the providers that sign its clients' tokens and issue its
// own.
func TestDoctorOnProviders(t *testing.T) {
	t.Parallel()
	provider := httptest.NewUnstartedServer(identityProvider(t))
	provider.Config.ErrorLog = log.New(io.Discard, "", 0)
	provider.StartTLS()
	defer provider.Close()
	trusted, nowhere := filepath.Join(t.TempDir(), "trusted.pem"), httptest.NewServer(nil)
	nowhere.Close()
	testcert.Write(t, trusted, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.Certificate().Raw})))
	trust := ` ssl.truststore.type="PEM" ssl.truststore.location="` + trusted + `"`
	for _, test := range []struct {
		name, keys, tokens, options string
		trouble                     bool
		says                        []string
	}{
		{"both", provider.URL, provider.URL, trust, false, []string{"the keys of its tokens can be read from " + provider.URL, "the broker gets its own tokens from " + provider.URL}},
		{"neither is trusted", provider.URL, provider.URL, "", true, []string{"jwks.endpoint.url=" + provider.URL + "/keys: ", "token.endpoint.url: get a token from " + provider.URL, "certificate"}},
		{"no keys", nowhere.URL, provider.URL, trust, true, []string{"jwks.endpoint.url=" + nowhere.URL + "/keys: ", "the broker gets its own tokens"}},
		{"no tokens", provider.URL, nowhere.URL, trust, true, []string{"the keys of its tokens can be read", "get a token from " + nowhere.URL}},
		{"no such file", provider.URL, provider.URL, ` ssl.truststore.location="/nowhere"`, true, []string{"the options ssl.* of its login module: ssl.truststore.location=/nowhere"}},
		{"another secret", provider.URL, provider.URL, trust + ` clientSecret="wrong"`, true, []string{"get a token from " + provider.URL, "401"}},
	} {
		const prefix, handlers = "listener.name.sasl_plaintext.oauthbearer.", "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearer"
		secret := ` clientSecret="secret"`
		if strings.Contains(test.options, "clientSecret") {
			secret = ""
		}
		b, err := config.Parse(map[string]string{
			"zookeeper.connect": "localhost:1", "listeners": "SASL_PLAINTEXT://:1", "security.inter.broker.protocol": "SASL_PLAINTEXT",
			"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
			prefix + "sasl.server.callback.handler.class":  handlers + "ValidatorCallbackHandler",
			prefix + "sasl.login.callback.handler.class":   handlers + "LoginCallbackHandler",
			prefix + "sasl.oauthbearer.jwks.endpoint.url":  test.keys + "/keys",
			prefix + "sasl.oauthbearer.token.endpoint.url": test.tokens + "/token",
			prefix + "sasl.oauthbearer.expected.audience":  "kafka",
			prefix + "sasl.jaas.config":                    config.LoginModules()["OAUTHBEARER"] + ` required clientId="broker"` + secret + test.options + ";",
			prefix + "sasl.login.retry.backoff.max.ms":     "3600000",
			prefix + "sasl.login.retry.backoff.ms":         "3600000",
		})
		if err != nil {
			t.Fatal(err)
		}
		d := new(doctor)
		d.providers(t.Context(), b)
		said := fmt.Sprint(d.diagnosis.Findings)
		if d.diagnosis.Trouble != test.trouble || strings.Contains(said, "secret") || len(d.diagnosis.Findings) != 2 {
			t.Errorf("%s: %s", test.name, said)
		}
		for _, words := range test.says {
			if !strings.Contains(said, words) {
				t.Errorf("%s: no %q: %s", test.name, words, said)
			}
		}
	}
}

// identityProvider publishes a key, and issues a token to the client broker.
func identityProvider(t *testing.T) http.Handler {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"ES256"}`)) + "." + part(fmt.Appendf(nil, `{"sub":"broker","exp":%d}`, time.Now().Add(time.Hour).Unix())) + "." + part(make([]byte, 64))
	pages := http.NewServeMux()
	pages.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) })
	pages.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if id, secret, _ := r.BasicAuth(); id != "broker" || secret != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q}`, token)
	})
	return pages
}
