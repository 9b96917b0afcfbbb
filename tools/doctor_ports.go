package tools

import "context"

// checkBootstrap reports the addresses in --bootstrap-server that expect another protocol than this client uses: they
// do not answer, and clients do not say why. It returns false if there are no others, so that nobody can be asked.
func (d *doctor) checkBootstrap(ctx context.Context) (answers bool, err error) {
	seeds, err := bootstrapServers(*d.o.bootstrap)
	if err != nil {
		return false, err
	}
	for _, addr := range seeds {
		understood, err := d.checkProtocol(ctx, "--bootstrap-server", addr)
		if err != nil {
			return false, err
		}
		answers = answers || understood
	}
	return answers, nil
}

// checkProtocol reports whether the listener at an address expects this client's protocol, as far as can be found out,
// and otherwise what a client sees.
func (d *doctor) checkProtocol(ctx context.Context, subject, addr string) (bool, error) {
	p, err := readProperties(*d.o.config)
	if err != nil {
		return false, err
	}
	says, do, err := checkProtocol(ctx, addr, p)
	if err != nil || says == "" {
		return err == nil, err
	}
	d.trouble(subject, do, "%s", says)
	return false, nil
}
