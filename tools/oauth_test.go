package tools

import (
	"testing"
	"time"

	"barnabas/network/oauth"
)

func TestRefreshOfTokens(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        *oauth.Source // nil: refused
	}{
		{"client.id", "x", &oauth.Source{Window: 0.8, Jitter: 0.05, MinPeriod: time.Minute, Buffer: 5 * time.Minute}},
		{"sasl.login.refresh.window.factor", "0.5", &oauth.Source{Window: 0.5, Jitter: 0.05, MinPeriod: time.Minute, Buffer: 5 * time.Minute}},
		{"sasl.login.refresh.window.jitter", " 0.25", &oauth.Source{Window: 0.8, Jitter: 0.25, MinPeriod: time.Minute, Buffer: 5 * time.Minute}},
		{"sasl.login.refresh.min.period.seconds", "900", &oauth.Source{Window: 0.8, Jitter: 0.05, MinPeriod: 15 * time.Minute, Buffer: 5 * time.Minute}},
		{"sasl.login.refresh.buffer.seconds", "0", &oauth.Source{Window: 0.8, Jitter: 0.05, MinPeriod: time.Minute}},
		{"sasl.login.refresh.window.factor", "0.4", nil},
		{"sasl.login.refresh.window.factor", "NaN", nil},
		{"sasl.login.refresh.window.jitter", "0.3", nil},
		{"sasl.login.refresh.min.period.seconds", "901", nil},
		{"sasl.login.refresh.buffer.seconds", "-1", nil},
		{"sasl.login.refresh.buffer.seconds", "x", nil},
	} {
		s := new(oauth.Source)
		err := refresh(properties{test.name: test.value}, s)
		if (err == nil) != (test.want != nil) {
			t.Errorf("%s=%s: %v", test.name, test.value, err)
		}
		if w := test.want; w != nil && (s.Window != w.Window || s.Jitter != w.Jitter || s.MinPeriod != w.MinPeriod || s.Buffer != w.Buffer) {
			t.Errorf("%s=%s: %v, %v, %v, %v", test.name, test.value, s.Window, s.Jitter, s.MinPeriod, s.Buffer)
		}
	}
}
