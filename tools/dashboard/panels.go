package dashboard

// row is a band of panels under a heading.
type row struct {
	title  string
	panels []panel
}

// panel is one picture. Its width is in columns of 24, its height in steps of 30
// pixels.
type panel struct {
	kind        string // one of the constants below
	title       string
	description string
	unit        string // as Grafana names it
	w, h        int
	queries     []query
	steps       []step // colours; none: Grafana's own
	words       map[string]string
	stacked     bool
	logarithmic bool
	most        float64 // of the axis; 0: what there is
	columns     []column
}

// The kinds of panels.
const (
	lines  = "timeseries"
	bars   = "bars" // timeseries, drawn as bars: for what happens now and then
	figure = "stat"
	gauges = "bargauge"
	states = "state-timeline"
	table  = "table"
)

// query is one expression, and what its series are called.
type query struct {
	expr, legend string
}

// step is from where on a colour counts.
type step struct {
	from  float64
	color string
}

// column is one of a table: what the label, or the value of the nth query, is called
// there, and its unit.
type column struct {
	field, title, unit string
}

// first leaves one series for each disk: ebb has one for each directory that it
// watches there.
const first = ` and on (job, instance, filesystem) ebb_node_filesystem_info{alias="false"}`

// goodBelow colours what should be 0.
var goodBelow = []step{{0, "green"}, {1, "red"}}

func rows() []row {
	return []row{glance(), pressure(), reclaimed(), writers(), imageUse(), dead(), cascades(), cascadeHealth(), probes()}
}
