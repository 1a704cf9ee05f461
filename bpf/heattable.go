package bpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Keys of the map heat_stocked, see heat.h.
const (
	stockPut = iota
	stockTaken
)

const (
	heatTagBits = 48
	heatWords   = len(heatHeatBucket{}.Word)
)

// heatTable is user space's side of heat.bpf.c: programs take slots, and only
// heatTable returns them. It keeps no state itself, so a process can die at any
// point.
type heatTable struct {
	maps map[string]*ebpf.Map
}

// slots returns the slot of each layer.
func (t heatTable) slots() (map[heatHeatKey]uint32, error) {
	slots, err := readHash[heatHeatKey, uint32](t.maps[heatMapHeatLayers])
	if err != nil {
		return nil, fmt.Errorf("read layers: %w", err)
	}
	return slots, nil
}

// read returns the layers and the record of each. It skips entries with an
// invalid slot; reclaim removes those.
func (t heatTable) read() (map[heatHeatKey]heatHeatLayer, error) {
	slots, err := t.slots()
	if err != nil {
		return nil, err
	}
	records, err := readArray[heatHeatLayer](t.maps[heatMapHeatSlots], t.maps[heatMapHeatSlots].MaxEntries())
	if err != nil {
		return nil, fmt.Errorf("read heat of layers: %w", err)
	}
	read := make(map[heatHeatKey]heatHeatLayer, len(slots))
	for key, slot := range slots {
		if int(slot) < len(records) {
			read[key] = records[slot]
		}
	}
	return read, nil
}

// forget removes layers, then makes their slots and words free for others.
func (t heatTable) forget(gone []HeatKey) error {
	for _, k := range gone {
		if err := deleteKey(t.maps[heatMapHeatLayers], k.kernel()); err != nil {
			return fmt.Errorf("delete layer: %w", err)
		}
	}
	return t.reclaim()
}

// reclaim puts slots back into the stock that are neither in the stock nor a
// layer's. They belonged to layers that were removed, by this process or by one
// that died over it, or are left over from two programs that entered the same
// layer. A slot is put back only after every program that may hold it has ended,
// and after every word that bears it is freed.
func (t heatTable) reclaim() error {
	idle, err := t.idle()
	if err != nil || len(idle) == 0 {
		return err
	}
	if err := waitForPrograms(); err != nil {
		return fmt.Errorf("wait for programs that hold a slot: %w", err)
	}
	// A program that had taken an idle slot has entered its layer by now.
	slots, err := t.slots()
	if err != nil {
		return err
	}
	for _, slot := range slots {
		delete(idle, slot)
	}
	if err := t.sweep(idle); err != nil {
		return err
	}
	return t.restock(idle)
}

// idle returns the slots that are neither in the ring nor a layer's. It reads
// first what programs change first: a slot leaves the ring before a layer has it.
// While a program is between these two steps its slot seems idle.
func (t heatTable) idle() (map[uint32]bool, error) {
	stock := t.maps[heatMapHeatStock]
	ring, err := readArray[uint32](stock, stock.MaxEntries())
	if err != nil {
		return nil, fmt.Errorf("read stock: %w", err)
	}
	put, have, err := t.stocked()
	if err != nil {
		return nil, err
	}
	slots, err := t.slots()
	if err != nil {
		return nil, err
	}
	idle := make(map[uint32]bool, stock.MaxEntries())
	for slot := range stock.MaxEntries() {
		idle[slot] = true
	}
	taken := map[uint32]bool{}
	for key, slot := range slots {
		if !idle[slot] || taken[slot] { // damaged
			if err := deleteKey(t.maps[heatMapHeatLayers], key); err != nil {
				return nil, fmt.Errorf("drop damaged entry: %w", err)
			}
			continue
		}
		taken[slot] = true
	}
	for at := have; at < put; at++ {
		delete(idle, ring[at%uint64(len(ring))])
	}
	for slot := range taken {
		delete(idle, slot)
	}
	return idle, nil
}

// stocked returns how many slots were ever put into the ring and taken from it.
func (t heatTable) stocked() (put, taken uint64, err error) {
	m := t.maps[heatMapHeatStocked]
	if err = m.Lookup(uint32(stockPut), &put); err == nil {
		err = m.Lookup(uint32(stockTaken), &taken)
	}
	ring := uint64(t.maps[heatMapHeatStock].MaxEntries())
	if err == nil && (taken > put || put-taken > ring) {
		err = errForeign
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read stock: %w", err)
	}
	return put, taken, nil
}

// sweep frees the words that bear one of the slots. Programs write to the table
// at the same time, so sweep changes each word atomically, in the map's own
// memory.
func (t heatTable) sweep(slots map[uint32]bool) error {
	m := t.maps[heatMapHeatSeen]
	page := os.Getpagesize()
	size := (int(m.MaxEntries())*heatWords*8 + page - 1) / page * page
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map seen files: %w", err)
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(memory))), int(m.MaxEntries())*heatWords)
	for i := range words {
		if word := atomic.LoadUint64(&words[i]); word != 0 && slots[uint32(word>>heatTagBits)] {
			atomic.StoreUint64(&words[i], 0)
		}
	}
	return unix.Munmap(memory)
}

// restock clears the records of the slots and puts the slots into the stock.
func (t heatTable) restock(slots map[uint32]bool) error {
	put, _, err := t.stocked()
	if err != nil {
		return err
	}
	stock := t.maps[heatMapHeatStock]
	for slot := range slots {
		if err := t.maps[heatMapHeatSlots].Put(slot, heatHeatLayer{}); err != nil {
			return fmt.Errorf("clear slot: %w", err)
		}
		if err := stock.Put(uint32(put%uint64(stock.MaxEntries())), slot); err != nil {
			return fmt.Errorf("put slot into stock: %w", err)
		}
		put++
	}
	if err := t.maps[heatMapHeatStocked].Put(uint32(stockPut), put); err != nil {
		return fmt.Errorf("put slots into stock: %w", err)
	}
	return nil
}
