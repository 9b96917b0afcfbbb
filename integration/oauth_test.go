package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testcert"
	"barnabas/internal/testport"

	"github.com/go-jose/go-jose/v4"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

const (
	oauthModule     = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
	oauthValidators = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"
	oauthLogins     = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
)

// provider is an identity provider with one key, which knows the clients kafka, a broker, and alice, each with its name
// as its secret.
type provider struct {
	t   *testing.T
	key *ecdsa.PrivateKey
	url string
	ssl string // login module options for reaching the provider over TLS
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	return startProvider(t, func(p *provider, routes http.Handler) *httptest.Server { return httptest.NewServer(routes) })
}

// newPrivateProvider starts a provider with HTTPS whose certificate is only trusted by clients that are configured to
// do so.
func newPrivateProvider(t *testing.T) *provider {
	t.Helper()
	return startProvider(t, func(p *provider, routes http.Handler) *httptest.Server {
		ca := testcert.NewAuthority(t, "provider")
		file := filepath.Join(t.TempDir(), "ca.pem")
		testcert.Write(t, file, ca.PEM())
		p.ssl = fmt.Sprintf(` ssl.truststore.type="PEM" ssl.truststore.location=%q`, file)
		server := httptest.NewUnstartedServer(routes)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("idp", "127.0.0.1").TLS()}}
		server.StartTLS()
		return server
	})
}

func startProvider(t *testing.T, serve func(*provider, http.Handler) *httptest.Server) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{(&jose.JSONWebKey{Key: key, KeyID: "k", Use: "sig", Algorithm: "ES256"}).Public()}})
	})
	routes.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != secret || r.FormValue("grant_type") != "client_credentials" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		now := time.Now().Unix()
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": p.sign(fmt.Sprintf(
			`{"sub":%q,"iss":"https://idp","aud":"cluster","iat":%d,"exp":%d}`, id, now, now+5)), "token_type": "bearer"})
	})
	server := serve(p, routes)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// sign returns a token with the given claims.
func (p *provider) sign(claims string) string { return p.signWith("k", p.key, claims) }

func (p *provider) signWith(id string, key any, claims string) string {
	p.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(claims))
	if err != nil {
		p.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return token
}

// settings add an OAUTHBEARER listener SECURE to the PLAINTEXT one; brokers use it as the provider's client kafka.
func (p *provider) settings(clients int, secure string) []string {
	const prefix = "listener.name.secure.oauthbearer."
	return []string{
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SECURE://%s", clients, secure),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT", "inter.broker.listener.name=SECURE",
		"sasl.enabled.mechanisms=OAUTHBEARER", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
		prefix + "sasl.server.callback.handler.class=" + oauthValidators, prefix + "sasl.login.callback.handler.class=" + oauthLogins,
		prefix + "sasl.jaas.config=" + oauthModule + ` required clientId="kafka" clientSecret="kafka"` + p.ssl + `;`,
		"sasl.oauthbearer.jwks.endpoint.url=" + p.url + "/keys", "sasl.oauthbearer.token.endpoint.url=" + p.url + "/token",
		"sasl.oauthbearer.expected.audience=other,cluster", "sasl.oauthbearer.expected.issuer=https://idp",
	}
}

// cluster starts a broker of each kind, which log in to each other, and returns ours and the addresses of both SECURE
// listeners.
func (p *provider) cluster() (ours *process, ourAddr, theirAddr string) {
	p.t.Helper()
	zk := zookeeper(p.t)
	ours, theirs := newProcess(p.t, 0, zk), newPeer(p.t, 1, zk)
	ourAddr, theirAddr = testport.Address(p.t), testport.Address(p.t)
	ours.add(p.settings(ours.port, ourAddr)...)
	ours.start()
	theirs.settings = p.settings(theirs.port, theirAddr)
	theirs.start()
	return ours, ourAddr, theirAddr
}

// TestSignedTokens presents tokens to a broker of each kind, which must accept the same ones; the two are in one
// cluster and log in to each other with tokens of the provider, from which tools get theirs, too.
func TestSignedTokens(t *testing.T) {
	t.Parallel()
	idp := newProvider(t)
	ours, ourAddr, theirAddr := idp.cluster()

	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	valid := fmt.Sprintf(`"iss":"https://idp","iat":%d,"exp":%d`, now, now+600)
	for name, test := range map[string]struct {
		token string
		good  bool
	}{
		"good":                 {idp.sign(`{"sub":"alice","aud":"cluster",` + valid + `}`), true},
		"one of audiences":     {idp.sign(`{"sub":"alice","aud":["x","other"],` + valid + `}`), true},
		"scopes":               {idp.sign(`{"sub":"alice","aud":"cluster","scope":["a","b"],` + valid + `}`), true},
		"a scope":              {idp.sign(`{"sub":"alice","aud":"cluster","scope":"a b",` + valid + `}`), true},
		"no key id":            {idp.signWith("", idp.key, `{"sub":"alice","aud":"cluster",`+valid+`}`), true},
		"within the skew":      {idp.sign(fmt.Sprintf(`{"sub":"alice","aud":"cluster","iss":"https://idp","iat":%d,"nbf":%d,"exp":%d}`, now+600, now+15, now+900)), true},
		"begins late":          {idp.sign(fmt.Sprintf(`{"sub":"alice","aud":"cluster","iss":"https://idp","iat":%d,"nbf":%d,"exp":%d}`, now, now+300, now+900)), false},
		"expired":              {idp.sign(fmt.Sprintf(`{"sub":"alice","aud":"cluster","iss":"https://idp","iat":%d,"exp":%d}`, now-600, now-60)), false},
		"ends before it began": {idp.sign(fmt.Sprintf(`{"sub":"alice","aud":"cluster","iss":"https://idp","iat":%d,"exp":%d}`, now+600, now+300)), false},
		"no audience":          {idp.sign(`{"sub":"alice",` + valid + `}`), false},
		"another audience":     {idp.sign(`{"sub":"alice","aud":"x",` + valid + `}`), false},
		"another issuer":       {idp.sign(strings.Replace(`{"sub":"alice","aud":"cluster",`+valid+`}`, "https://idp", "https://other", 1)), false},
		"no end":               {idp.sign(fmt.Sprintf(`{"sub":"alice","aud":"cluster","iss":"https://idp","iat":%d}`, now)), false},
		"no beginning":         {idp.sign(fmt.Sprintf(`{"sub":"alice","aud":"cluster","iss":"https://idp","exp":%d}`, now+600)), false},
		"nobody":               {idp.sign(`{"aud":"cluster",` + valid + `}`), false},
		"a blank":              {idp.sign(`{"sub":" ","aud":"cluster",` + valid + `}`), false},
		"a scope twice":        {idp.sign(`{"sub":"alice","aud":"cluster","scope":["a","a"],` + valid + `}`), false},
		"a stranger's key":     {idp.signWith("k", stranger, `{"sub":"alice","aud":"cluster",`+valid+`}`), false},
		"an unknown key":       {idp.signWith("x", stranger, `{"sub":"alice","aud":"cluster",`+valid+`}`), false},
		"unsigned":             {"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.", false},
		"nonsense":             {"x", false},
	} {
		for kind, addr := range map[string]string{"ours": ourAddr, "Apache Kafka": theirAddr} {
			cl := newClient(t, kgo.SeedBrokers(addr), kgo.SASL(oauth.Auth{Token: test.token}.AsMechanism()), kgo.RequestRetries(0))
			if err := cl.Ping(t.Context()); (err == nil) != test.good {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
			cl.Close()
		}
	}

	file := propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", "sasl.login.callback.handler.class="+oauthLogins,
		"sasl.oauthbearer.token.endpoint.url="+idp.url+"/token", "sasl.jaas.config="+oauthModule+` required clientId="alice" clientSecret="alice";`)
	topics := func(addr string, args ...string) string {
		return ourTool(t, "", "topics", append([]string{"--bootstrap-server", addr, "--command-config", file}, args...)...)
	}
	topics(ourAddr, "--create", "--topic", "t", "--replica-assignment", "0:1,1:0", "--config", "min.insync.replicas=2")
	cl := newClient(t, kgo.SeedBrokers(ours.addr()), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer cl.Close()
	for began := time.Now(); time.Since(began) < 7*time.Second; time.Sleep(10 * time.Millisecond) { // tokens expire meanwhile, connections stay open
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	described, err := kadm.NewClient(cl).ListTopics(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range described["t"].Partitions.Sorted() {
		if len(p.ISR) != 2 {
			t.Errorf("partition %d has the ISR %v", p.Partition, p.ISR)
		}
	}
	wrong := propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", "sasl.login.callback.handler.class="+oauthLogins,
		"sasl.oauthbearer.token.endpoint.url="+idp.url+"/token", "sasl.jaas.config="+oauthModule+` required clientId="alice" clientSecret="wrong";`)
	out, err := exec.Command(brokerBinary(t), "topics", "--bootstrap-server", ourAddr, "--command-config", wrong, "--list").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/token: the response is 401 Unauthorized") {
		t.Errorf("with a wrong secret: %v: %s", err, out)
	}
}

// TestPrivateProvider: the provider's certificate is trusted by clients that name its authority in the options of their
// login module: a broker of each kind, which log in to each other, and tools.
func TestPrivateProvider(t *testing.T) {
	t.Parallel()
	idp := newPrivateProvider(t)
	ours, ourAddr, theirAddr := idp.cluster()
	file := func(options string) string {
		return propertiesFile(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", "sasl.login.callback.handler.class="+oauthLogins,
			"sasl.oauthbearer.token.endpoint.url="+idp.url+"/token", "sasl.jaas.config="+oauthModule+` required clientId="alice" clientSecret="alice"`+options+`;`)
	}
	trusting := file(idp.ssl)
	ourTool(t, "", "topics", "--bootstrap-server", ourAddr, "--command-config", trusting, "--create", "--topic", "t", "--replica-assignment", "0:1,1:0")
	cl := newClient(t, kgo.SeedBrokers(ours.addr()), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer cl.Close()
	for range 4 { // each record waits for the follower on the other broker
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	ourTool(t, "", "topics", "--bootstrap-server", theirAddr, "--command-config", trusting, "--describe", "--topic", "t")
	out, err := exec.Command(brokerBinary(t), "topics", "--bootstrap-server", ourAddr, "--command-config", file(""), "--list").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "certificate") {
		t.Errorf("a client that does not trust the provider: %v: %s", err, out)
	}
}
