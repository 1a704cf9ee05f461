package main

// figures is what node.json holds.
type figures struct {
	EbbReaction     float64  `json:"ebb_reaction_s"` // the median
	EbbReactionMean float64  `json:"ebb_reaction_mean_s"`
	EbbReactionMax  float64  `json:"ebb_reaction_max_s"`
	EbbLow          *float64 `json:"ebb_to_low_s"`       // the median; null if that was not reached
	EbbRemoved      int      `json:"ebb_images_removed"` // the most
	EbbFinal        float64  `json:"ebb_final_used_percent"`
	EbbPulledAgain  uint64   `json:"ebb_pulled_again_bytes"`
	EbbENOSPC       int      `json:"ebb_enospc_errors"`
	EbbLoad         load     `json:"ebb_load"`
	EbbRuns         int      `json:"ebb_runs"`

	// KubeletReaction is the longest possible wait. KubeletReactionMean is half of it: the average
	// for fills at random moments.
	KubeletReaction     float64  `json:"kubelet_reaction_s"`
	KubeletReactionMean float64  `json:"kubelet_reaction_mean_s"`
	KubeletLow          *float64 `json:"kubelet_to_low_s"`
	KubeletRemoved      int      `json:"kubelet_images_removed"`
	KubeletFinal        float64  `json:"kubelet_final_used_percent"`
	KubeletPulledAgain  uint64   `json:"kubelet_pulled_again_bytes"`
	KubeletENOSPC       int      `json:"kubelet_enospc_errors"`
	KubeletLoad         load     `json:"kubelet_load"`
	KubeletRuns         int      `json:"kubelet_runs"`

	EvictionReaction     float64  `json:"kubelet_eviction_reaction_s"` // the median
	EvictionReactionMean float64  `json:"kubelet_eviction_reaction_mean_s"`
	EvictionReactionMax  float64  `json:"kubelet_eviction_reaction_max_s"`
	EvictionLow          *float64 `json:"kubelet_eviction_to_low_s"` // to its own threshold
	EvictionRemoved      int      `json:"kubelet_eviction_images_removed"`
	EvictionFinal        float64  `json:"kubelet_eviction_final_used_percent"`
	EvictionPulledAgain  uint64   `json:"kubelet_eviction_pulled_again_bytes"`
	EvictionENOSPC       int      `json:"kubelet_eviction_enospc_errors"`
	EvictionNeeded       int      `json:"kubelet_eviction_images_needed"`
	EvictionLoad         load     `json:"kubelet_eviction_load"`
	EvictionRuns         int      `json:"kubelet_eviction_runs"`

	Beside besideFigures `json:"beside"`       // a writer of pacedSpeed
	Flood  besideFigures `json:"beside_flood"` // one of full speed

	Needed int `json:"images_needed"`
	High   int `json:"high_percent"`
	Low    int `json:"low_percent"`
	Filled int `json:"filled_percent"`

	Usage usage `json:"usage"`
}

// load is what a process used while the writer wrote more than was free.
type load struct {
	CPU      float64 `json:"cpu_ms"`
	Switches float64 `json:"switches"`
	RSS      float64 `json:"rss_mib"` // at the end
	Seconds  float64 `json:"seconds"`
}

// usage is used percent over ms since the fill, of the run with the median reaction.
type usage struct {
	Ebb      []point `json:"ebb"`
	Kubelet  []point `json:"kubelet"`
	Eviction []point `json:"kubelet_eviction"`
}

// besideFigures are the figures of ebb beside the kubelet.
type besideFigures struct {
	Fills         int     `json:"fills"`
	Pressure      int     `json:"kubelet_under_pressure"`
	Removed       int     `json:"images_removed"`
	ENOSPC        int     `json:"enospc_errors"`
	OverThreshold float64 `json:"longest_over_eviction_threshold_s"`
}
