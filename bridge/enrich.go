package bridge

import (
	"context"
	"slices"
	"time"

	"ndrbridge/poller"
	"ndrbridge/transform"
)

// enrich returns what adds to detections; nil where nothing is asked for.
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
