"""The children of a population: every token that the mask allows, and the stop event, with their probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import torch

from smc.blocks import Blocks
from smc.constraints.base import masked
from smc.errors import ModelError
from smc.host import fetch, moved, send
from smc.vocabulary import Vocabulary


@dataclass(frozen=True)
class Children:
    """Log probabilities of what may come next, on the model's device. Tokens stay in the model's dtype.

    Nothing here waits for the device until the host asks for something: :meth:`fetch` then brings the rows' own numbers
    along with whatever else is wanted, and so do `log_stop` and `log_kept` when they are the first to be read.

    Attributes:
        log_token: [R, V] log p of each token that extends the row; minus infinity where the mask forbids it and at stop
            tokens.
        stop: [R] float64 log p of the stop event, several stop tokens added up; minus infinity where the row may not
            stop, NaN where the model returned NaN (one NaN logit makes a whole normalised row NaN), plus infinity or NaN
            where all its logits are minus infinity (see :func:`smc.models.logits.log_normalised`).
        check: if given, nothing is masked yet and ``check(row, column)`` tells whether a child is allowed (column V is
            the stop event).
        unpowered: where the probabilities are p^a, the children at power 1; otherwise None.
    """

    log_token: torch.Tensor
    stop: torch.Tensor
    check: Callable[[int, int], bool] | None = None
    unpowered: Children | None = None
    _known: list[np.ndarray] = field(default_factory=list, init=False, repr=False, compare=False)

    @staticmethod
    def of(log_probs: torch.Tensor, packed_mask: torch.Tensor, vocabulary: Vocabulary) -> Children:
        """Mask the model's next-token log probabilities.

        Args:
            log_probs: [R, V] normalised log probabilities, float32 or float64.
            packed_mask: [R, ceil(V / 32)] int32 on the host.

        Raises:
            ModelError: the model gave something else.
        """
        _see_that_it_fits(log_probs, (len(packed_mask), len(vocabulary)))
        log_token, stops = masked(log_probs, packed_mask), _index(vocabulary.stop_ids, log_probs.device)
        log_stop = torch.logsumexp(log_token.index_select(1, stops).double(), dim=1)
        return Children(log_token.index_fill_(1, stops, -torch.inf), log_stop)

    @staticmethod
    def unmasked(log_probs: torch.Tensor, vocabulary: Vocabulary, n_rows: int) -> Children:
        """Mask or no mask: every token, control tokens included, and the stop event. Errors are those of :meth:`of`."""
        _see_that_it_fits(log_probs, (n_rows, len(vocabulary)))
        stops = _index(vocabulary.stop_ids, log_probs.device)
        log_stop = torch.logsumexp(log_probs.index_select(1, stops).double(), dim=1)
        return Children(log_probs.index_fill(1, stops, -torch.inf), log_stop)

    @staticmethod
    def to_ask(
        log_probs: torch.Tensor, vocabulary: Vocabulary, n_rows: int, check: Callable[[int, int], bool]
    ) -> Children:
        """The children of the unmasked model, for methods that ask about one token at a time.

        Args:
            check: tells whether a row may go on by a token id. Control tokens are asked about too: a constraint may have
                spelled one out, and the others it refuses.
        """
        stop, width = vocabulary.stop_ids[0], len(vocabulary)
        children = Children.unmasked(log_probs, vocabulary, n_rows)
        return replace(children, check=lambda row, column: check(row, stop if column == width else column))

    def powered(self, power: float) -> Children:
        """Children under p^power: tokens p^a, the stop event (sum of its tokens' p)^a."""
        if power == 1:
            return self
        return replace(self, log_token=self.log_token * power, stop=self.stop * power, unpowered=self.plain)

    @property
    def plain(self) -> Children:
        """The children at power 1."""
        return self if self.unpowered is None else self.unpowered

    def __len__(self) -> int:
        return len(self.log_token)

    # ------------------------------------------------------------------ on the device

    @cached_property
    def blocks(self) -> Blocks:
        """The tokens' log p by blocks of the vocabulary."""
        return Blocks.of(self.log_token)

    @cached_property
    def _log_kept(self) -> torch.Tensor:
        return torch.logaddexp(self.blocks.log_total, self.stop)

    @cached_property
    def top(self) -> torch.Tensor:
        """[R] float64, the largest log p of a row's children; 0 where it has none."""
        top = torch.maximum(self.blocks.top.amax(dim=1), self.stop)
        return torch.where(top > -torch.inf, top, 0.0)

    def log_relative(self) -> torch.Tensor:
        """[R, V + 1] float64: log p of the tokens and, last, of the stop event, less the largest of each row."""
        return torch.cat([self.log_token.double(), self.stop[:, None]], dim=1) - self.top[:, None]

    @cached_property
    def relative(self) -> torch.Tensor:
        """[R, V + 1] p of the tokens and, last, of the stop event, over the largest of each row."""
        stop = self.stop[:, None].to(self.log_token.dtype)
        table = torch.cat([self.log_token, stop], dim=1).sub_(self.top[:, None].to(self.log_token.dtype))
        return table.exp_()

    def log_token_at(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """[N] float64 log p of tokens; columns outside the vocabulary give some number."""
        return self.log_token[rows, columns.clamp(0, self.log_token.shape[1] - 1)].double()

    # ------------------------------------------------------------------ on the host

    def fetch(self, *tensors: torch.Tensor) -> list[np.ndarray]:
        """Tensors as arrays, together with `log_stop` and `log_kept` of these and of the plain children: one transfer.

        Raises:
            ModelError: the model returned NaN, or minus infinity for everything.
        """
        unknown = [c for c in {id(c): c for c in (self, self.plain)}.values() if not c._known]
        found = fetch(*(torch.stack([c.stop, c._log_kept]) for c in unknown), *tensors)
        for children, numbers in zip(unknown, found[: len(unknown)], strict=True):
            if not (numbers < np.inf).all():
                raise self._broken()
            children._known.append(numbers)
        return found[len(unknown) :]

    def _broken(self) -> ModelError:
        """What to say of numbers that are none."""
        if bool((self.plain.log_token == torch.inf).any() | (self.plain.stop == torch.inf).any()):
            return ModelError(
                "The model returned logits that are all minus infinity, so no token may come next, not even a stop. Look for "
                "what masks them all: a logits processor, a bias of minus infinity, or an attention mask that hides the prompt."
            )
        return ModelError(
            "The model returned logits that are not finite numbers (NaN, or plus infinity). Try dtype='float32' or another "
            "attention implementation, and check that the weights were loaded whole."
        )

    @property
    def log_stop(self) -> np.ndarray:
        """[R] log p of the stop event; minus infinity where the row may not stop."""
        return self._numbers[0]

    @property
    def log_kept(self) -> np.ndarray:
        """[R] log Z_t: the log of the mass that survives the mask, the stop event included."""
        return self._numbers[1]

    @property
    def _numbers(self) -> np.ndarray:
        if not self._known:
            self.fetch()
        return self._known[0]

    def gather(self, rows: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """[N] log p of the given tokens of the given rows."""
        at = send(np.asarray(rows, dtype=np.int64), np.asarray(tokens, dtype=np.int64), device=self.log_token.device)
        return self.fetch(self.log_token_at(*at))[0]


def _see_that_it_fits(log_probs: torch.Tensor, shape: tuple[int, int]) -> None:
    """Raise a ModelError unless a table is one of [R, V] log probabilities of single or double precision."""
    if tuple(log_probs.shape) != shape:
        raise ModelError(
            f"The model gave log_probs of shape {tuple(log_probs.shape)} where {shape[0]} rows and {shape[1]} tokens make "
            f"{shape}: its rows must give [rows, vocabulary], as smc.testing.check_model checks."
        )
    if log_probs.dtype not in (torch.float32, torch.float64):
        raise ModelError(
            f"The model gave log_probs in {str(log_probs.dtype).removeprefix('torch.')}, whose rounding would enter the weights: "
            "compute the log-softmax in float32 or float64, as in torch.log_softmax(logits.float(), dim=-1)."
        )


@cache
def _index(ids: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return moved(torch.tensor(ids, dtype=torch.int64), device)
