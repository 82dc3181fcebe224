package bridge

import (
	"context"
	"slices"
	"time"

	"ndrbridge/poller"
	"ndrbridge/transform"
)

// enrich returns the function that enriches detections, or nil if no enrichment is
// configured.
func (s *streams) enrich() func(context.Context, []transform.Detection) []transform.Enrichment {
	parts := s.appliance.Detections.Enrich
	if len(parts) == 0 {
		return nil
	}
	return poller.NewEnricher(s.client, poller.EnrichOptions{
		Devices: slices.Contains(parts, "devices"),
		Format:  slices.Contains(parts, "format"),
		Link:    slices.Contains(parts, "link"),
		URL:     s.appliance.URL,
		Product: s.appliance.Product,
		Timeout: poller.DefaultEnrichTimeout, MaxDevices: poller.DefaultMaxDevices, MaxAge: poller.DefaultEnrichAge,
		Now: time.Now,
		Log: s.streamLog("detections"),
	}).Enrich
}
