package ssl

import "fmt"

// Listener says what a broker's listener needs TLS for.
type Listener struct {
	Name, Protocol string
	Prefix         string // of the listener's own settings
	Logins         bool   // clients are identified by SASL
	Brokers        bool   // brokers connect to each other by it
}

// ForListener creates a listener's Context and checks that it is usable: a server needs a key, and brokers with the
// same settings must accept each other. before is the Context that it replaces, or nil.
func ForListener(s Settings, l Listener, before *Context) (*Context, error) {
	made, err := New(l.adapt(s))
	switch {
	case err != nil:
		return nil, err
	case made.keys == nil:
		return nil, &Error{Setting: l.Prefix + keystoreLocation,
			Err: fmt.Errorf("listener %s has protocol %s, so it or %s must be set, or %s", l.Name, l.Protocol, keystoreLocation, keystoreKey)}
	case !l.Brokers:
		return made, nil
	}
	if err := checkPair(made, made); err != nil {
		return nil, &Error{Setting: made.Changed(before),
			Err: fmt.Errorf("brokers speak to each other by listener %s, and would refuse each other: %w", l.Name, err)}
	}
	return made, nil
}

// adapt returns the settings as they apply to the listener. Where clients are identified by SASL, certificates are
// requested only if the listener's own setting says so (ChannelBuilders.serverChannelBuilder, 3.9).
func (l Listener) adapt(s Settings) Settings {
	if !l.Logins {
		return s
	}
	return Settings{Get: func(name string) (as, value string, set bool) {
		as, value, set = s.Get(name)
		if name == clientAuthKey && as == name {
			return as, "none", true
		}
		return as, value, set
	}}
}
