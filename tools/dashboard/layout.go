package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

type object = map[string]any

const width = 24

var source = object{"type": "prometheus", "uid": "${datasource}"}

// JSON is the dashboard as Grafana imports it.
func JSON() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(frame(place(rows()))); err != nil {
		return nil, fmt.Errorf("write the dashboard: %w", err)
	}
	return out.Bytes(), nil
}

// frame is all around the panels.
func frame(panels []object) object {
	return object{
		"uid": "ebb", "title": "ebb: disks of nodes, and cascades", "tags": []string{"ebb", "kubernetes"},
		"description":   "Node disks at low tide: how full they are and when they would be full, what ebb removed and why, who fills them, which images are used; dead containers; what ebb-controller collects; and whether all of it works.",
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "browser",
		"time": object{"from": "now-6h", "to": "now"}, "refresh": "1m",
		"links": []object{{
			"type": "link", "title": "What to do", "icon": "doc", "targetBlank": true,
			"url": "https://github.com/ebb-agent/ebb/blob/main/docs/operate.md",
		}},
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1, "hide": 0},
			{
				"name": "node", "label": "Node", "type": "query", "datasource": source, "refresh": 2, "sort": 1, "hide": 0,
				"definition": "label_values(ebb_node_ready, node)", "query": object{"query": "label_values(ebb_node_ready, node)", "refId": "node"},
				"multi": true, "includeAll": true, "allValue": ".*",
				"current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
			},
		}},
		"annotations": object{"list": []object{{
			"name": "Alerts of ebb", "datasource": source, "enable": true, "iconColor": "red", "type": "tags",
			"expr": `ALERTS{alertname=~"Ebb.+", alertstate="firing", severity!="info"}`, "step": "60s",
			"titleFormat": "{{alertname}}", "textFormat": "{{node}} {{filesystem}}",
		}}},
		"panels": panels,
	}
}

// place puts panels side by side until the row of columns is full, and then below.
func place(rows []row) (all []object) {
	id, y := 0, 0
	next := func() int { id++; return id }
	for _, r := range rows {
		all = append(all, object{
			"id": next(), "type": "row", "title": r.title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": width, "h": 1},
		})
		y++
		x, highest := 0, 0
		for _, p := range r.panels {
			if x+p.w > width {
				x, y, highest = 0, y+highest, 0
			}
			drawn := p.draw()
			drawn["id"] = next()
			drawn["gridPos"] = object{"x": x, "y": y, "w": p.w, "h": p.h}
			all = append(all, drawn)
			x, highest = x+p.w, max(highest, p.h)
		}
		y += highest
	}
	return all
}

// draw is the panel without its place.
func (p panel) draw() object {
	kind := p.kind
	if kind == bars {
		kind = lines
	}
	return object{
		"type": kind, "title": p.title, "description": p.description, "datasource": source,
		"targets": p.targets(), "options": p.options(), "transformations": p.transformations(),
		"fieldConfig": object{"defaults": p.defaults(), "overrides": p.overrides()},
	}
}

// instant panels show the present, not a history.
func (p panel) instant() bool { return slices.Contains([]string{figure, gauges, table}, p.kind) }

func (p panel) targets() (list []object) {
	for i, q := range p.queries {
		t := object{
			"refId": string(rune('A' + i)), "datasource": source, "editorMode": "code", "expr": q.expr, "legendFormat": q.legend,
			"instant": p.instant(), "range": !p.instant(),
		}
		if p.kind == table {
			t["format"] = "table"
		}
		list = append(list, t)
	}
	return list
}

func (p panel) defaults() object {
	d := object{"unit": p.unit, "custom": p.custom(), "noValue": "–"}
	if p.steps != nil {
		d["color"] = object{"mode": "thresholds"}
		d["thresholds"] = object{"mode": "absolute", "steps": p.colours()}
	}
	if p.kind == lines || p.kind == bars {
		d["color"] = object{"mode": "palette-classic"}
		if !p.logarithmic {
			d["min"] = 0
		}
	}
	if p.most > 0 {
		d["max"] = p.most
	}
	if p.words != nil {
		options := object{}
		for value, text := range p.words {
			options[value] = object{"text": text}
		}
		d["mappings"] = []object{{"type": "value", "options": options}}
	}
	return d
}

// colours are the steps; the lowest has no bound.
func (p panel) colours() (list []object) {
	for i, s := range p.steps {
		var from any = s.from
		if i == 0 {
			from = nil
		}
		list = append(list, object{"value": from, "color": s.color})
	}
	return list
}

func (p panel) custom() object {
	switch p.kind {
	case states:
		return object{"fillOpacity": 70, "lineWidth": 0}
	case lines, bars:
	default:
		return object{}
	}
	c := object{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": false,
		"stacking": object{"mode": "none", "group": "A"}, "scaleDistribution": object{"type": "linear"},
	}
	if p.kind == bars {
		c["drawStyle"], c["fillOpacity"] = "bars", 60
	}
	if p.stacked {
		c["stacking"], c["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
	}
	if p.logarithmic {
		c["scaleDistribution"] = object{"type": "log", "log": 10}
	}
	return c
}

func (p panel) options() object {
	reduce := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch p.kind {
	case figure:
		return object{"reduceOptions": reduce, "colorMode": "value", "graphMode": "none", "textMode": "auto", "justifyMode": "auto", "orientation": "auto"}
	case gauges:
		return object{"reduceOptions": reduce, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": true, "valueMode": "color"}
	case states:
		return object{"mergeValues": true, "showValue": "never", "rowHeight": 0.8, "legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}}
	case table:
		return object{"showHeader": true, "cellHeight": "sm", "footer": object{"show": false}}
	}
	return object{
		"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
}

// transformations make one table of several queries, with the columns that are
// wanted, in their order.
func (p panel) transformations() []object {
	if p.kind != table {
		return []object{}
	}
	names, order := object{}, object{}
	keep := make([]string, 0, len(p.columns))
	for i, c := range p.columns {
		names[c.field], order[c.field] = c.title, i
		keep = append(keep, c.field)
	}
	return []object{
		{"id": "merge", "options": object{}},
		{"id": "filterFieldsByName", "options": object{"include": object{"names": keep}}},
		{"id": "organize", "options": object{"renameByName": names, "indexByName": order, "excludeByName": object{}}},
	}
}

func (p panel) overrides() []object {
	list := []object{}
	for _, c := range p.columns {
		if c.unit != "" {
			list = append(list, object{
				"matcher":    object{"id": "byName", "options": c.title},
				"properties": []object{{"id": "unit", "value": c.unit}},
			})
		}
	}
	return list
}

// value is the field of a table's nth query.
func value(n int) string { return "Value #" + string(rune('A'+n)) }

func number(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
