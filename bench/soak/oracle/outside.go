package oracle

import "time"

// Outside is a change of an object in another API server, told as it happens. The
// state of etcd may not be known up to that moment: judge is to be called when it is.
// An object outside is then judged by what is true a moment later, which excuses rather
// than accuses; and not at all if etcd was restored meanwhile.
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
		o.bury(old, rev) // which has the last finalizers
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
