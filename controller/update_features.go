package controller

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpdateFeatures answers for each feature that it is unknown: ZooKeeper mode has none.
func (c *Controller) UpdateFeatures(ctx context.Context, req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	return updateFeatures.ask(ctx, c, req)
}

var updateFeatures = api[*kmsg.UpdateFeaturesRequest, *kmsg.UpdateFeaturesResponse]{
	name:   "update features",
	work:   UpdateFeatures,
	answer: (*activeController).updateFeatures,
	refuse: func(_ *kmsg.UpdateFeaturesRequest, resp *kmsg.UpdateFeaturesResponse) {
		explain(kerr.NotController, &resp.ErrorCode, &resp.ErrorMessage)
	},
}

func (ac *activeController) updateFeatures(_ context.Context, req *kmsg.UpdateFeaturesRequest) (*kmsg.UpdateFeaturesResponse, error) {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	for _, f := range req.FeatureUpdates {
		result := kmsg.NewUpdateFeaturesResponseResult()
		result.Feature = f.Feature
		explain(fmt.Errorf("feature %q is not supported: no feature can be finalized in ZooKeeper mode: %w", f.Feature, kerr.InvalidRequest), &result.ErrorCode, &result.ErrorMessage)
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}
