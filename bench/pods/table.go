package main

import (
	"fmt"

	"github.com/ebb-agent/ebb/bench/result"
)

func (f figures) markdown() string {
	rows := [][]string{{fmt.Sprintf("%.0f agents", f["agents"]), "start", "idle", "the way is back", "the server is back"}}
	for _, r := range [][2]string{
		{"requests for each agent and minute", "requests_per_agent_min"}, {"lists for each agent", "lists_per_agent"},
		{"questions for the newest version", "newest_per_agent"}, {"watches", "watches_per_agent"},
		{"lists a second, at most over ten seconds", "lists_peak_s"}, {"until all know their pods, s", "known_s"},
	} {
		cells := []string{r[0]}
		for _, n := range []string{"start", "idle", "back", "restart"} {
			cells = append(cells, figure(f[n+"_"+r[1]]))
		}
		rows = append(rows, cells)
	}
	rows[1][1] = "" // the start lasts for seconds
	return result.Table(rows)
}

// figure also shows 0, which is a count here.
func figure(v float64) string {
	if v == 0 {
		return "0"
	}
	return result.Figure(v)
}

// text returns the section of the report.
func (f figures) text() string {
	return fmt.Sprintf(report, f["agents"], f["pods_per_node"], f["idle_s"]/60, f["outage_s"], f["after_s"]/60) + f.markdown()
}

// render writes the section of the report from pods.json in a directory.
func render(results string) error {
	return result.Render(results, "pods", figures.text)
}

const report = `## Pods: many agents and one API server

%.0f agents' sources of pods (pods.source: apiserver), each for a node of its own with %.0f pods, on one API server 1.36 with etcd, all on two cores; requests are counted by
its audit log. Nothing of the agents' timing is changed. Idle is the first %.0f minutes after the start; a watch lives for 5 to 10 minutes, and is begun anew before that if it says nothing for 70 s. Then a proxy on the way is away for %.0f s, while each node loses a pod; and
after that the API server itself for as long, which comes back without a memory, so that each agent has to list. After each outage it is counted for %.0f minutes. Lists of 5,000 agents are
ten times as many a second.

`
