package metadata

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/runtime/kube/bounded"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// page is the metadata of a list.
type page struct {
	version string
	next    string // continue token; empty: no more pages
}

// pageSize is how many objects one page of a list has at most.
const pageSize = 500

// list requests one page of a type, or all of it if limit is 0, and calls each for each object.
// next is the continue token of the page before; empty: the first page. The request has no
// resourceVersion, so it reads the newest state. On an error, each may already have been called
// for some objects. The timeout of a request applies to a page; without a limit, to each object.
// The time that each takes does not count.
func (f *Follower) list(ctx context.Context, next string, limit int, each func(item) error) (page, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	left, waits := f.c.timeout, time.Now()
	timer := time.AfterFunc(left, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	take := each
	each = func(it item) error {
		timer.Stop() // the time that take needs does not count
		if limit > 0 {
			left -= time.Since(waits)
		}
		err := take(it)
		waits = time.Now()
		timer.Reset(left)
		return err
	}
	query := url.Values{}
	maps.Copy(query, f.query)
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if next != "" {
		query.Set("continue", next)
	}
	q := request{method: http.MethodGet, path: f.path, query: query.Encode(), accept: f.decoder.accepts(acceptList, mediaProtobuf)}
	sent := time.Now()
	resp, err := f.c.send(ctx, f.c.calls, q)
	if err != nil {
		return page{}, f.fault(broken(q.op(), err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		if f.decoder.details && resp.StatusCode == http.StatusForbidden {
			f.hearDate(sent, resp) // a client that may not list needs the time, too
		}
		a, err := readAnswer(resp, maxAnswer)
		if err != nil {
			return page{}, f.fault(broken(q.op(), err))
		}
		return page{}, f.fault(q.refused(a))
	}
	f.hearDate(sent, resp)
	p, err := f.readPage(resp, next, each)
	if err != nil {
		return page{}, f.fault(broken(q.op(), err))
	}
	return p, nil
}

// readPage reads the answer to a request with the continue token next.
func (f *Follower) readPage(resp *http.Response, next string, each func(item) error) (p page, err error) {
	switch m := media(resp); {
	case m == mediaProtobuf:
		p, err = protoList(newFrames(resp.Body), &decoder{kind: f.t.Kind, fields: f.decoder.fields, details: f.decoder.details}, f.sound(each))
	case m == mediaJSON && f.decoder.fields == nil:
		p, err = jsonList(resp.Body, f.decoder.details, f.sound(each))
	default:
		err = fault.Nonsense("a list of the type %s", fault.Clean(m))
	}
	switch {
	case err != nil:
		return page{}, err
	case p.version == "" && !f.t.Aggregated:
		return page{}, fault.Nonsense("a list without a resource version")
	case p.next != "" && p.next == next:
		return page{}, fault.Nonsense("a list that goes on where it began")
	}
	return p, nil
}

// protoList reads a list in protobuf. It never holds more of the list than one object: five
// hundred may have a megabyte each.
func protoList(f *frames, d *decoder, each func(item) error) (page, error) {
	head, err := f.peek(len(magic))
	if err != nil {
		return page{}, cutOff(err)
	}
	if string(head) != string(magic) {
		return page{}, fault.Nonsense("no Kubernetes protobuf")
	}
	f.skip(len(magic))
	var p page
	var o typed
	complete := false
	for {
		n, size, err := f.header()
		if err == io.EOF && complete {
			return p, nil
		}
		if err != nil {
			return page{}, cutOff(err)
		}
		if n == 2 {
			if string(o.kind) != d.wants()+"List" || complete {
				return page{}, fault.Nonsense("a %s", fault.Clean(string(o.kind)))
			}
			if p, err = listBody(f, size, d, each); err != nil {
				return page{}, cutOff(err)
			}
			complete = true
			continue
		}
		b, err := f.take(size)
		if err != nil {
			return page{}, cutOff(err)
		}
		if n == 1 {
			if err := o.typeMeta(b); err != nil {
				return page{}, err
			}
			o.kind = append([]byte(nil), o.kind...) // the buffer is used again
		}
	}
}

// listBody reads the message in the envelope, which is size bytes long.
func listBody(f *frames, size int64, d *decoder, each func(item) error) (p page, err error) {
	for size > 0 {
		was := f.passed
		n, length, err := f.header()
		if err != nil {
			return p, err
		}
		b, err := f.take(length)
		if err != nil {
			return p, err
		}
		switch n {
		case 1:
			err = p.meta(b)
		case 2:
			var it item
			if it, err = d.object(b); err == nil {
				err = each(it)
			}
		}
		if err != nil {
			return p, err
		}
		size -= f.passed - was
	}
	if size < 0 {
		return p, fault.Nonsense("a list that is longer than it says")
	}
	return p, nil
}

func (p *page) meta(b []byte) error {
	var version, next []byte
	err := protobuf.Read(b, protobuf.To{Field: 2, Bytes: &version}, protobuf.To{Field: 3, Bytes: &next})
	p.version, p.next = string(version), string(next)
	return err
}

// header reads the head of a field. All fields of a list and of its envelope that matter have a
// length. It reads a number as a field without bytes.
func (f *frames) header() (n protowire.Number, size int64, err error) {
	tag, err := f.varint()
	if err != nil {
		return 0, 0, err
	}
	n, t := protowire.DecodeTag(tag)
	if n < protowire.MinValidNumber {
		return 0, 0, fault.Nonsense("a field without a number")
	}
	v, err := f.varint()
	switch {
	case err != nil:
		return 0, 0, cutOff(err)
	case t == protowire.VarintType:
		return n, 0, nil
	case t != protowire.BytesType || v > 1<<40:
		return 0, 0, fault.Nonsense("a field of the type %d", t)
	}
	return n, int64(v), nil
}

func (f *frames) varint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := f.peek(1)
		if err != nil {
			if shift > 0 {
				err = cutOff(err)
			}
			return 0, err
		}
		v |= uint64(b[0]&0x7f) << shift
		last := b[0] < 0x80
		f.skip(1)
		if last {
			return v, nil
		}
	}
	return 0, fault.Nonsense("a number of more than 64 bits")
}

// take reads n bytes that are valid until the next call.
func (f *frames) take(n int64) ([]byte, error) {
	if n > maxObject {
		return nil, fault.Nonsense("an object of %d MiB", n>>20)
	}
	b, err := f.peek(int(n))
	if err != nil {
		return nil, cutOff(err)
	}
	f.skip(int(n))
	return b, nil
}

// cutOff replaces io.EOF with io.ErrUnexpectedEOF.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// jsonList is protoList for a server that has no protobuf.
func jsonList(r io.Reader, details bool, each func(item) error) (p page, err error) {
	d := bounded.NewJSON(r, bounded.Unlimited, maxObject)
	complete := false
	err = d.Fields(func(key string) error {
		switch key {
		case "metadata":
			var meta struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			}
			err := d.Decode(&meta)
			p = page{meta.ResourceVersion, meta.Continue}
			return err
		case "items":
			complete = true
			return d.Items(func() error {
				var o jsonObject
				if err := d.Decode(&o); err != nil {
					return err
				}
				it := o.item()
				if details {
					it.listed = o.listed()
				}
				return each(it)
			})
		}
		return d.Skip()
	})
	if err == nil && !complete {
		err = fault.Nonsense("a list without items")
	}
	if err != nil {
		return page{}, cutOff(fault.InJSON(err))
	}
	return p, nil
}

// pages lists the type page by page, for servers that do not stream lists.
func (f *Follower) pages(ctx context.Context) error {
	done := f.c.place(ctx, f.c.lists)
	defer done.release()
	limit, whole := pageSize, f.whole
	if f.whole = false; whole {
		limit = 0
	}
	f.asked, f.listed, f.floor = time.Now(), 0, f.c.continuity.floor()
	var first, p page
	for begun := false; !begun || p.next != ""; begun = true {
		var err error
		var objects []Event
		begin := func() {
			if !begun && objects == nil {
				objects = append(f.away(f.c.continuity.hear(time.Now())), f.listing())
			}
		}
		p, err = f.list(ctx, p.next, limit, func(it item) error {
			begin()
			done.heard()
			f.listed++
			if objects = append(objects, f.observed(it)); len(objects) < maxBatch {
				return nil
			}
			full := objects
			objects = make([]Event, 0, maxBatch)
			return f.deliver(ctx, full)
		})
		if begun && errors.Is(err, errExpired) {
			return f.expired(whole, err)
		}
		if err != nil {
			return err
		}
		if begin(); !begun {
			first = p
		}
		if len(objects) == 0 {
			continue
		}
		if err := f.deliver(ctx, objects); err != nil {
			return err
		}
	}
	return f.synced(ctx, first.version)
}

// expired handles a list whose next page etcd has forgotten. The server offers to continue with
// the newest state. That would not help: the watch would have to begin where the first page was,
// and etcd has forgotten that version, too. So the next list is read in one answer. If that
// expires as well, expired returns another error.
func (f *Follower) expired(whole bool, err error) error {
	if f.whole = !whole; f.whole {
		return err
	}
	return &fault.Answer{Fault: fault.Fault{Op: "GET " + f.path, Kind: ErrUnavailable, Text: "its lists expire before they were read, also without a limit"}}
}
