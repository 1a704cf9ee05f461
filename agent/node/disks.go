package node

import (
	"context"

	"github.com/ebb-agent/ebb/bpf"
)

// disks is the worker that reads filesystems after a crossing or a deadline.
type disks struct {
	*parts
	worker
	looks   *looks
	crossed []bpf.Crossing // not answered yet
}

// crossing has the worker answer the kernel's event that a watermark was reached.
func (d *disks) crossing(c bpf.Crossing) {
	d.crossed = append(d.crossed, c)
	d.want()
}

// work answers crossings and deadlines.
func (d *disks) work(ctx context.Context) {
	for len(d.crossed) > 0 && ctx.Err() == nil {
		c := d.crossed[0]
		d.crossed = d.crossed[1:]
		d.looks.demanded(d.watermark.Crossed(ctx, c))
	}
	if d.watermark.PollDue() {
		d.looks.demanded(d.watermark.Poll())
	}
	d.looks.demanded(d.watermark.Recheck(ctx))
}
