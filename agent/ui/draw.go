package ui

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// drawDisk draws how full a disk is, with its thresholds. All are percentages; low is 0 if there is
// none.
func drawDisk(used, high, low int) template.HTML {
	clamp := func(n int) int { return min(max(n, 0), 100) }
	class := "fill"
	if used >= high {
		class = "fill over"
	}
	lines := fmt.Sprintf(`<rect class="high" x="%d" y="0" width="0.5" height="10"/>`, clamp(high))
	words := fmt.Sprintf("%d %% used, high threshold %d %%", used, high)
	if low > 0 {
		lines += fmt.Sprintf(`<rect class="low" x="%d" y="0" width="0.5" height="10"/>`, clamp(low))
		words += fmt.Sprintf(", low threshold %d %%", low)
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers alone
		`<svg class="disk" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="%s"><rect class="%s" x="0" y="0" width="%d" height="10"/>%s</svg>`,
		words, class, clamp(used), lines))
}

// drawDay draws how full a disk was in the last 24 hours, with its high threshold. It returns
// nothing if fewer than two samples are known.
func drawDay(p page.Past, path string, high int) template.HTML {
	const width = 24 * 60 // one unit is a minute
	var points []string
	for _, f := range p.Filesystems {
		if f.Path != path {
			continue
		}
		for _, s := range f.Samples {
			if x := width - int(p.Time.Sub(s.Time)/time.Minute); x >= 0 && x <= width {
				points = append(points, fmt.Sprintf("%d,%d", x, 100-min(max(s.UsedPercent, 0), 100)))
			}
		}
	}
	if len(points) < 2 {
		return ""
	}
	y := 100 - min(max(high, 0), 100)
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers alone
		`<svg class="day" viewBox="0 0 %d 100" preserveAspectRatio="none" role="img" aria-label="used in the last 24 hours"><line class="high" x1="0" x2="%d" y1="%d" y2="%d"/><polyline points="%s"/></svg>`,
		width, width, y, y, strings.Join(points, " ")))
}
