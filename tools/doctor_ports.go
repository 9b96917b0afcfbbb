package tools

import "context"

// knock tells of the addresses of --bootstrap-server that are not spoken to as they want to be: there is no answer from them, and no
// client says why. It gives false when there are no others, and nobody can be asked.
func (d *doctor) knock(ctx context.Context) (answers bool, err error) {
	seeds, err := bootstrapServers(*d.o.bootstrap)
	if err != nil {
		return false, err
	}
	for _, addr := range seeds {
		understood, err := d.understood(ctx, "--bootstrap-server", addr)
		if err != nil {
			return false, err
		}
		answers = answers || understood
	}
	return answers, nil
}

// understood tells whether what listens at an address wants to be spoken to as this client does, as far as can be found out, and says
// what a client meets if not.
func (d *doctor) understood(ctx context.Context, subject, addr string) (bool, error) {
	p, err := readProperties(*d.o.config)
	if err != nil {
		return false, err
	}
	says, do, err := misunderstood(ctx, addr, p)
	if err != nil || says == "" {
		return err == nil, err
	}
	d.trouble(subject, do, "%s", says)
	return false, nil
}
