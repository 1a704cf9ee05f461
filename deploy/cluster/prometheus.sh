# Part of provision.sh: Debian's Prometheus on the node. Debian builds it without
# Kubernetes service discovery, so a loop (targets.sh) writes ebb's pods to a file.
# deploy/prometheus/prometheus.yml is for a Prometheus with that discovery. The job
# names and labels are those that the rules expect.

prometheus() {
	local dir=/etc/prometheus/ebb
	mkdir -p $dir/rules /var/lib/ebb-prometheus
	rm -f $dir/rules/*
	{
		cat <<-EOF
			global: {scrape_interval: ${scrape_interval:-15s}, evaluation_interval: ${scrape_interval:-15s}}
			scrape_configs:
			- job_name: ebb # each target says which it is
			  honor_labels: true
			  file_sd_configs: [{files: [/run/ebb-targets/targets.json], refresh_interval: 5m}]
		EOF
		echo "rule_files: [$dir/rules/*]"
	} >$dir/prometheus.yml
	[ ${#rules[@]} = 0 ] || cp "${rules[@]}" $dir/rules/
	promtool check config $dir/prometheus.yml >/dev/null
	# Debian's own service would occupy the port.
	[ $start = direct ] || systemctl disable --now --quiet prometheus
	service ebb-targets "$here/targets.sh"
	service ebb-prometheus /usr/bin/prometheus --config.file=$dir/prometheus.yml \
		--storage.tsdb.path=/var/lib/ebb-prometheus --web.listen-address=127.0.0.1:9090
	until_works 300 promtool query instant http://127.0.0.1:9090 up
}
