import pytest
import torch

from regard.attention.kernels.products import inner_products, one_query_products, one_weighted_sum, weighted_sums

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("lead", [(2,), (2, 4)])
def test_they_are_matrix_products(device, queries, lead):
    torch.manual_seed(0)
    query, keys = torch.randn(*lead, queries, 5), torch.randn(*lead, 6, 5)
    weights, values = torch.randn(*lead, queries, 6), torch.randn(*lead, 6, 7)
    query, keys, weights, values = (x.double().to(device) for x in (query, keys, weights, values))
    torch.testing.assert_close(inner_products(query, keys), query @ keys.mT)
    torch.testing.assert_close(weighted_sums(weights, values), weights @ values)
    if queries == 1:
        torch.testing.assert_close(one_query_products(query, keys), query @ keys.mT)
        torch.testing.assert_close(one_weighted_sum(weights, values), weights @ values)
