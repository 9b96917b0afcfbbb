package api

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// softwareName matches valid client software names and versions (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersions returns the offered versions. A request in a version that is not offered is answered too, in the format
// of version 0 and with the one entry that the client needs in order to retry.
func (h *Handlers) apiVersions(_ context.Context, c *Call) (network.Answer, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	r := h.rows[int16(kmsg.ApiVersions)]
	if c.Version < r.min || c.Version > r.max {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{r.offered()}
		return network.Ready(resp), nil
	}
	req := kmsg.NewPtrApiVersionsRequest()
	if err := decode(req, c); err != nil {
		return network.Answer{}, err
	}
	if c.Version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return ready(c, resp), nil
	}
	if c.Version >= 3 {
		c.Conn.Identify(network.Software{Name: begin(req.ClientSoftwareName), Version: begin(req.ClientSoftwareVersion)})
	}
	c.Conn.VersionsTold()
	resp.ApiKeys = h.offered()
	features := h.Features()
	resp.FinalizedFeaturesEpoch = int64(features.Epoch)
	for name, level := range features.Levels {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MaxVersionLevel, f.MinVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	return ready(c, resp), nil
}

// begin returns the beginning of a text that any client may send, without keeping the rest in memory.
func begin(text string) string { return strings.Clone(text[:min(len(text), 100)]) }

func (r *row) offered() kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = r.key.Int16(), r.min, r.max
	return k
}

// offered lists all APIs by key.
func (h *Handlers) offered() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(h.rows))
	for _, r := range h.rows {
		keys = append(keys, r.offered())
	}
	slices.SortFunc(keys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey - b.ApiKey) })
	return keys
}
