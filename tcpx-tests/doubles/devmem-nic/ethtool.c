// SPDX-License-Identifier: GPL-2.0
/* Settings and counters. */
#include <linux/ethtool_netlink.h>

#include "nic.h"

static const char nic_names[][ETH_GSTRING_LEN] = {
	"rx_packets", "rx_device_packets", "rx_linear_packets", "rx_no_page", "rx_lost",
	"rx_overrun", "rx_resets", "tx_device_packets",
};

static int nic_count_strings(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? ARRAY_SIZE(nic_names) : -EOPNOTSUPP;
}

static void nic_get_strings(struct net_device *dev, u32 set, u8 *to)
{
	memcpy(to, nic_names, sizeof(nic_names));
}

static void nic_get_counters(struct net_device *dev, struct ethtool_stats *stats, u64 *to)
{
	const struct nic *nic = netdev_priv(dev);
	int i;

	memset(to, 0, ARRAY_SIZE(nic_names) * sizeof(*to));
	for (i = 0; i < NIC_QUEUES; i++) {
		const struct nic_counters *c = &nic->queues[i].counters;

		to[0] += c->rx_packets;
		to[1] += c->rx_device_packets;
		to[2] += c->rx_linear_packets;
		to[3] += c->rx_no_page;
		to[4] += c->rx_lost;
		to[5] += c->rx_overrun;
		to[6] += c->rx_resets;
	}
	to[7] = nic->tx_device_packets;
}

static void nic_get_rings(struct net_device *dev, struct ethtool_ringparam *ring,
			  struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	ring->rx_max_pending = NIC_RING_ENTRIES;
	ring->rx_pending = NIC_RING_ENTRIES;
	ring->tx_max_pending = NIC_RING_ENTRIES;
	ring->tx_pending = NIC_RING_ENTRIES;
	kernel->tcp_data_split = nic_splits(dev) ? ETHTOOL_TCP_DATA_SPLIT_ENABLED :
						   ETHTOOL_TCP_DATA_SPLIT_DISABLED;
	kernel->hds_thresh = dev->cfg->hds_thresh;
	kernel->hds_thresh_max = 1024;
}

/* The kernel keeps the two settings of header split, and receive.c reads them there. */
static int nic_set_rings(struct net_device *dev, struct ethtool_ringparam *ring,
			 struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	if (ring->rx_pending != NIC_RING_ENTRIES || ring->tx_pending != NIC_RING_ENTRIES)
		return -EINVAL;
	return 0;
}

static void nic_get_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	channels->max_combined = NIC_QUEUES;
	channels->combined_count = NIC_QUEUES;
}

static u32 nic_get_ring_count(struct net_device *dev)
{
	return NIC_QUEUES;
}

static u32 nic_rss_size(struct net_device *dev)
{
	return NIC_RSS_ENTRIES;
}

static int nic_get_rss(struct net_device *dev, struct ethtool_rxfh_param *param)
{
	struct nic *nic = netdev_priv(dev);

	param->hfunc = ETH_RSS_HASH_TOP;
	if (param->indir)
		memcpy(param->indir, nic->rss, sizeof(nic->rss));
	return 0;
}

static int nic_set_rss(struct net_device *dev, struct ethtool_rxfh_param *param,
		       struct netlink_ext_ack *extack)
{
	struct nic *nic = netdev_priv(dev);

	if (param->key || (param->hfunc && param->hfunc != ETH_RSS_HASH_TOP))
		return -EOPNOTSUPP;
	if (param->indir) {
		spin_lock_bh(&nic->steer_lock);
		memcpy(nic->rss, param->indir, sizeof(nic->rss));
		spin_unlock_bh(&nic->steer_lock);
	}
	return 0;
}

const struct ethtool_ops nic_ethtool_ops = {
	.supported_ring_params = ETHTOOL_RING_USE_TCP_DATA_SPLIT | ETHTOOL_RING_USE_HDS_THRS,
	.get_link = ethtool_op_get_link,
	.get_sset_count = nic_count_strings,
	.get_strings = nic_get_strings,
	.get_ethtool_stats = nic_get_counters,
	.get_ringparam = nic_get_rings,
	.set_ringparam = nic_set_rings,
	.get_channels = nic_get_channels,
	.get_rx_ring_count = nic_get_ring_count,
	.get_rxnfc = nic_get_rules,
	.set_rxnfc = nic_set_rules,
	.get_rxfh_indir_size = nic_rss_size,
	.get_rxfh = nic_get_rss,
	.set_rxfh = nic_set_rss,
};
