package oracle

import "time"

// Outside records a change of an object in another API server as it happens. The oracle may not yet
// know the state of etcd at that moment. Call judge once it does. The change is then judged by what
// is true a moment later, which excuses rather than accuses. It is not judged if etcd was restored
// in between.
func (o *Oracle) Outside(at time.Time, x *Object, gone bool) (judge func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x.Outside = true
	old := o.objects[x.Key]
	if old != nil && old.UID != x.UID {
		old = nil
	}
	if gone && old == nil {
		return func() {}
	}
	rev, epoch := o.rev, o.epoch
	what := "changed"
	switch {
	case gone:
		what = "gone" + o.by(old)
		o.bury(old, rev) // old has the last finalizers
	case old == nil:
		what = "created"
		o.place(x, nil, at)
	default:
		o.place(x, old, at)
	}
	o.remember(x, rev, at, what)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if old == nil || o.epoch != epoch || !o.judged(x) {
			return
		}
		if gone {
			o.judgeEnd(rev, at, old)
		} else {
			o.judgeChange(rev, at, old, x)
		}
	}
}
