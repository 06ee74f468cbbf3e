// SPDX-License-Identifier: GPL-2.0
/* Which queue a packet goes to: that of the first rule that fits, else that of its hash. */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include "nic.h"

void nic_steer_init(struct nic *nic)
{
	int i;

	spin_lock_init(&nic->steer_lock);
	for (i = 0; i < NIC_RSS_ENTRIES; i++)
		nic->rss[i] = ethtool_rxfh_indir_default(i, NIC_QUEUES);
}

/* A bit of the mask says that the bit is looked at. */
static bool nic_same(const void *value, const void *wanted, const void *mask, int bytes)
{
	const u8 *v = value, *w = wanted, *m = mask;

	while (bytes--)
		if ((v[bytes] ^ w[bytes]) & m[bytes])
			return false;
	return true;
}

static bool nic_rule_fits(const struct ethtool_rx_flow_spec *spec, const struct sk_buff *skb)
{
	const struct tcphdr *tcp = tcp_hdr(skb);

	if (spec->flow_type == TCP_V4_FLOW && skb->protocol == htons(ETH_P_IP)) {
		const struct ethtool_tcpip4_spec *v = &spec->h_u.tcp_ip4_spec;
		const struct ethtool_tcpip4_spec *m = &spec->m_u.tcp_ip4_spec;

		return nic_same(&ip_hdr(skb)->saddr, &v->ip4src, &m->ip4src, 4) &&
		       nic_same(&ip_hdr(skb)->daddr, &v->ip4dst, &m->ip4dst, 4) &&
		       nic_same(&tcp->source, &v->psrc, &m->psrc, 2) &&
		       nic_same(&tcp->dest, &v->pdst, &m->pdst, 2);
	}
	if (spec->flow_type == TCP_V6_FLOW && skb->protocol == htons(ETH_P_IPV6)) {
		const struct ethtool_tcpip6_spec *v = &spec->h_u.tcp_ip6_spec;
		const struct ethtool_tcpip6_spec *m = &spec->m_u.tcp_ip6_spec;

		return nic_same(&ipv6_hdr(skb)->saddr, v->ip6src, m->ip6src, 16) &&
		       nic_same(&ipv6_hdr(skb)->daddr, v->ip6dst, m->ip6dst, 16) &&
		       nic_same(&tcp->source, &v->psrc, &m->psrc, 2) &&
		       nic_same(&tcp->dest, &v->pdst, &m->pdst, 2);
	}
	return false;
}

int nic_steer(struct nic *nic, struct sk_buff *skb)
{
	int i, queue = 0;

	if (!nic_header_bytes(skb))
		return 0;
	spin_lock_bh(&nic->steer_lock);
	queue = nic->rss[skb_get_hash(skb) % NIC_RSS_ENTRIES];
	for (i = 0; i < NIC_RULES && nic->dev->features & NETIF_F_NTUPLE; i++) {
		if (nic->rules[i].used && nic_rule_fits(&nic->rules[i].spec, skb)) {
			queue = nic->rules[i].spec.ring_cookie;
			break;
		}
	}
	spin_unlock_bh(&nic->steer_lock);
	return queue;
}

static int nic_count_rules(const struct nic *nic)
{
	int i, count = 0;

	for (i = 0; i < NIC_RULES; i++)
		count += nic->rules[i].used;
	return count;
}

static int nic_list_rules(struct nic *nic, struct ethtool_rxnfc *request, u32 *locations)
{
	int i, count = 0;

	if (request->rule_cnt < nic_count_rules(nic))
		return -EMSGSIZE;
	for (i = 0; i < NIC_RULES; i++)
		if (nic->rules[i].used)
			locations[count++] = i;
	request->rule_cnt = count;
	request->data = NIC_RULES;
	return 0;
}

int nic_get_rules(struct net_device *dev, struct ethtool_rxnfc *request, u32 *locations)
{
	struct nic *nic = netdev_priv(dev);
	int error = 0;

	spin_lock_bh(&nic->steer_lock);
	switch (request->cmd) {
	case ETHTOOL_GRXCLSRLCNT:
		request->rule_cnt = nic_count_rules(nic);
		request->data = NIC_RULES | RX_CLS_LOC_SPECIAL;
		break;
	case ETHTOOL_GRXCLSRULE:
		if (request->fs.location >= NIC_RULES || !nic->rules[request->fs.location].used)
			error = -ENOENT;
		else
			request->fs = nic->rules[request->fs.location].spec;
		break;
	case ETHTOOL_GRXCLSRLALL:
		error = nic_list_rules(nic, request, locations);
		break;
	default:
		error = -EOPNOTSUPP;
	}
	spin_unlock_bh(&nic->steer_lock);
	return error;
}

static int nic_insert_rule(struct nic *nic, struct ethtool_rx_flow_spec *spec)
{
	u32 at = spec->location;

	if (spec->flow_type != TCP_V4_FLOW && spec->flow_type != TCP_V6_FLOW)
		return -EOPNOTSUPP;
	if (spec->ring_cookie >= NIC_QUEUES)
		return -EINVAL;
	if (at == RX_CLS_LOC_ANY)
		for (at = 0; at < NIC_RULES && nic->rules[at].used; at++)
			;
	if (at >= NIC_RULES)
		return -ENOSPC;
	spec->location = at;
	nic->rules[at].spec = *spec;
	nic->rules[at].used = true;
	return 0;
}

int nic_set_rules(struct net_device *dev, struct ethtool_rxnfc *request)
{
	struct nic *nic = netdev_priv(dev);
	int error = 0;

	if (!(dev->features & NETIF_F_NTUPLE))
		return -EOPNOTSUPP;
	spin_lock_bh(&nic->steer_lock);
	switch (request->cmd) {
	case ETHTOOL_SRXCLSRLINS:
		error = nic_insert_rule(nic, &request->fs);
		break;
	case ETHTOOL_SRXCLSRLDEL:
		if (request->fs.location >= NIC_RULES || !nic->rules[request->fs.location].used)
			error = -ENOENT;
		else
			nic->rules[request->fs.location].used = false;
		break;
	default:
		error = -EOPNOTSUPP;
	}
	spin_unlock_bh(&nic->steer_lock);
	return error;
}
