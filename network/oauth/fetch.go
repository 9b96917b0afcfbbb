package oauth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"barnabas/internal/await"
	"barnabas/network/ssl"
)

// largestAnswer bounds the answer of a provider, in bytes.
const largestAnswer = 1 << 20

// Endpoint is a URL of an identity provider, or of a file instead.
type Endpoint struct {
	URL            string
	TLS            *tls.Config   // for https; nil: the system's authorities
	ConnectTimeout time.Duration // 0: 10 s
	ReadTimeout    time.Duration // 0: 10 s
	Backoff        time.Duration // before the first retry, doubled for each further one
	MaxBackoff     time.Duration // total time for retries
}

// Secure validates the URL, and sets TLS according to the ssl.* options of a login module.
func (e *Endpoint) Secure(options map[string]string) error {
	if err := e.check(); err != nil {
		return err
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return err
	}
	if e.TLS, err = ssl.ForOptions(options, u.Hostname()); err != nil {
		return fmt.Errorf("the options ssl.* of its login module: %w", err)
	}
	return nil
}

// check validates the URL.
func (e Endpoint) check() error {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil:
		return errors.New("it is not a URL")
	case u.Scheme == "file" && u.Path != "", (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return nil
	}
	return errors.New("it must be a URL that begins with https://, http:// or file:///")
}

// file returns the path of the file if the URL names one.
func (e Endpoint) file() (path string, ok bool) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "file" {
		return "", false
	}
	return u.Path, true
}

// shortestBackoff is the minimum pause between retries, whatever the settings say.
const shortestBackoff = 10 * time.Millisecond

// final is an error for which a retry is pointless.
type final struct{ error }

// read returns the content of the URL. request creates a request for http(s).
func (e Endpoint) read(ctx context.Context, request func(context.Context) (*http.Request, error)) ([]byte, error) {
	if path, ok := e.file(); ok {
		return os.ReadFile(path)
	}
	client := e.client()
	defer client.CloseIdleConnections()
	wait, last := max(e.Backoff, shortestBackoff), time.Now().Add(e.MaxBackoff)
	for {
		body, err := once(ctx, client, request)
		var stop final
		if err == nil || errors.As(err, &stop) || time.Now().Add(wait).After(last) {
			return body, err
		}
		if await.Pause(ctx, wait) != nil {
			return nil, err
		}
		wait *= 2
	}
}

func (e Endpoint) client() *http.Client {
	timeout := func(given time.Duration) time.Duration {
		if given <= 0 {
			return 10 * time.Second
		}
		return given
	}
	connect, read := timeout(e.ConnectTimeout), timeout(e.ReadTimeout)
	return &http.Client{Timeout: connect + read, CheckRedirect: noPlaintext, Transport: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: connect}).DialContext, TLSHandshakeTimeout: connect,
		ResponseHeaderTimeout: read, TLSClientConfig: e.TLS, ForceAttemptHTTP2: true,
	}}
}

// noPlaintext follows redirects only to URLs that are as secure: with plaintext, anyone on the path could supply the
// keys that tokens are verified with.
func noPlaintext(next *http.Request, before []*http.Request) error {
	const most = 10 // as in the library
	switch {
	case before[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return final{fmt.Errorf("it redirects to the unencrypted %s://%s", next.URL.Scheme, next.URL.Host)}
	case len(before) >= most:
		return final{fmt.Errorf("it redirects more than %d times", most)}
	}
	return nil
}

func once(ctx context.Context, client *http.Client, request func(context.Context) (*http.Request, error)) ([]byte, error) {
	req, err := request(ctx)
	if err != nil {
		return nil, final{err}
	}
	resp, err := client.Do(req)
	if untrusted := new(tls.CertificateVerificationError); errors.As(err, &untrusted) {
		return nil, final{err}
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > largestAnswer:
		return nil, final{fmt.Errorf("the response has more than %d bytes", largestAnswer)}
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusCreated:
		return body, nil
	}
	err = fmt.Errorf("the response is %s", resp.Status)
	if resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusRequestTimeout && resp.StatusCode != http.StatusTooManyRequests {
		err = final{err}
	}
	return nil, err
}
