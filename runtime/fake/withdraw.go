package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// withdrawal is an image whose names are deleted, while a lease of the fake keeps the rest.
type withdrawal struct {
	r       *Runtime
	image   *stored
	lease   string
	records map[key]record
}

// Withdraw answers as runtime/containerd does.
func (r *Runtime) Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error) {
	id := i.ID
	if err := r.begin(ctx); err != nil {
		return nil, fmt.Errorf("withdraw image %s: %w", id, err)
	}
	defer r.mu.Unlock()
	for _, err := range []error{r.faults.Withdraw, r.faults.Remove[id]} {
		if err != nil {
			return nil, fmt.Errorf("withdraw image %s: %w", id, err)
		}
	}
	if !slices.Contains(r.ids(), id) {
		return nil, fmt.Errorf("withdraw image %s: %w", id, inventory.ErrNotFound)
	}
	w := &withdrawal{r: r, records: map[key]record{}}
	var newest time.Time
	for _, name := range i.References {
		k := key{CRINamespace, name}
		if rec, ok := r.records[k]; ok && rec.id == id {
			w.records[k], w.image = rec, rec.stored
			if rec.updated.After(newest) {
				newest = rec.updated
			}
		}
	}
	if len(w.records) == 0 || len(w.records) < len(i.References) || !newest.Equal(i.Updated) {
		return nil, fmt.Errorf("withdraw image %s: %w", id, inventory.ErrChanged)
	}
	r.withdrawn++
	w.lease = fmt.Sprint("withdrawn-", r.withdrawn)
	r.leases[key{CRINamespace, w.lease}] = w.image
	r.withdrawals = append(r.withdrawals, w)
	names, halfway := sortedKeys(w.records), r.faults.Halfway
	if r.faults.Halfway = nil; halfway != nil {
		names = names[:len(names)-1]
	}
	for _, k := range names {
		delete(r.records, k)
		r.events.add(inventory.Event{Kind: inventory.EventImage, Namespace: k.namespace, Image: k.name})
	}
	if during := r.faults.During; during != nil {
		r.mu.Unlock()
		during(id)
		r.mu.Lock()
	}
	if halfway != nil {
		undone := inventory.ErrNamesBack
		if _, err := w.restore(); err != nil {
			undone = fmt.Errorf("%w: %w", inventory.ErrNamesAway, err)
		}
		return nil, fmt.Errorf("withdraw image %s: %w; %w", id, halfway, undone)
	}
	return w, nil
}

// Users answers as runtime/containerd does.
func (r *Runtime) Users(ctx context.Context, withdrawals ...inventory.Withdrawal) ([][]string, error) {
	if err := r.begin(ctx); err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	defer r.mu.Unlock()
	all := make([][]string, len(withdrawals))
	for n, some := range withdrawals {
		w := some.(*withdrawal)
		users, _ := r.users(w.image)
		for _, k := range sortedKeys(r.records) {
			if k.namespace == CRINamespace && r.records[k].id == w.image.id {
				users = append(users, inventory.NameUser+k.name)
			}
		}
		all[n] = users
	}
	return all, r.faults.Users
}

func (w *withdrawal) Restore(ctx context.Context) error {
	if err := w.r.begin(ctx); err != nil {
		return fmt.Errorf("restore image %s: %w", w.image.id, err)
	}
	err, restored := w.r.faults.Restore, w.r.faults.Restored
	if w.r.faults.Restore = nil; err == nil {
		_, err = w.restore()
	}
	w.r.mu.Unlock()
	if restored != nil && err == nil {
		restored(w.image.id)
	}
	return err
}

// restore needs the lock of w.r. alone is false if the image was pulled meanwhile.
func (w *withdrawal) restore() (alone bool, err error) {
	if err := w.r.faults.End; err != nil {
		return false, err
	}
	for _, k := range sortedKeys(w.records) {
		if rec, taken := w.r.records[k]; taken {
			alone = alone || rec.id != w.image.id || !rec.updated.After(w.records[k].updated)
		} else {
			alone = true
			w.r.put(k.namespace, k.name, w.image)
			rec := w.r.records[k]
			rec.unseen = w.r.now().Add(w.r.faults.Unseen)
			w.r.records[k] = rec
		}
	}
	w.end()
	return alone, nil
}

func (w *withdrawal) Complete(_ context.Context, collect bool) error {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if collect {
		w.r.collections++
		takes := w.r.faults.Collect
		w.r.mu.Unlock()
		time.Sleep(takes)
		w.r.mu.Lock()
	}
	if err := cmp.Or(w.r.faults.Complete[w.image.id], w.r.faults.End); err != nil {
		return err
	}
	before, _ := w.r.stored()
	w.end()
	w.r.collected(w.image.id, before)
	return nil
}

func (w *withdrawal) end() {
	delete(w.r.leases, key{CRINamespace, w.lease})
	w.r.withdrawals = slices.DeleteFunc(w.r.withdrawals, func(o *withdrawal) bool { return o == w })
}

// collected notes that an image is gone. before is how many bytes were stored with it.
func (r *Runtime) collected(id string, before uint64) {
	after, _ := r.stored()
	r.other += uint64(float64(before-after) * r.faults.Withheld)
	r.removed = append(r.removed, id)
}

// Collections returns how often Complete was to wait for a collection.
func (r *Runtime) Collections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.collections
}

// Mend restores the names of images whose withdrawal was not ended.
func (r *Runtime) Mend(context.Context) (mended []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range slices.Clone(r.withdrawals) {
		alone, err := w.restore()
		if err != nil {
			return mended, err
		}
		if alone {
			mended = append(mended, w.image.id)
		}
	}
	return mended, nil
}
