"""What is extracted, as Pydantic models: first what a JSON Schema can say, then what it cannot.

A JSON Schema bounds each value by itself. It has no arithmetic and cannot compare one value with another, so that "the
total is the sum of quantity times price" or "closes after it opens" can only be checked once the values are there. Each
`Consistent...` model has the schema of its parent, and a validator for that.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(min_length=1, max_length=40)]
Count = Annotated[int, Field(ge=1, le=999)]
Hour = Annotated[int, Field(ge=0, le=24)]
Stars = Annotated[int, Field(ge=1, le=5)]


class _Closed(BaseModel):
    """No fields but those that are named."""

    model_config = ConfigDict(extra="forbid")


class Item(_Closed):
    """A line of an order."""

    product: Name
    quantity: Count
    price: Count  # of one piece, in euros


class Order(_Closed):
    """Who buys what."""

    customer: Name
    items: Annotated[list[Item], Field(min_length=1, max_length=3)]
    total: Annotated[int, Field(ge=1, le=9999)]


class ConsistentOrder(Order):
    """The total is the sum over the items of quantity times price."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.total != sum(item.quantity * item.price for item in self.items):
            raise ValueError("the total is not the sum of the items")
        return self


class Address(_Closed):
    """Where a place is, and when it is open, in full hours."""

    street: Name
    number: Count
    city: Name
    postcode: Annotated[str, Field(min_length=4, max_length=8)]
    country: Literal["France", "Germany", "Italy", "Spain", "United Kingdom"]
    opens: Hour
    closes: Hour


class ConsistentAddress(Address):
    """It closes after it has opened."""

    @model_validator(mode="after")
    def _opens_first(self) -> Self:
        if self.closes <= self.opens:
            raise ValueError("it closes before it opens")
        return self


class Rating(_Closed):
    """Stars for one side of a place."""

    aspect: Literal["food", "service", "comfort", "location", "price"]
    stars: Stars


class Review(_Closed):
    """What a guest thinks of a place."""

    place: Name
    kind: Literal["restaurant", "hotel", "cafe"]
    ratings: Annotated[list[Rating], Field(min_length=2, max_length=3)]
    overall: Stars


class ConsistentReview(Review):
    """No aspect is rated twice, and the overall rating is the mean of the ratings, rounded up or down."""

    @model_validator(mode="after")
    def _is_their_mean(self) -> Self:
        if len({rating.aspect for rating in self.ratings}) < len(self.ratings):
            raise ValueError("an aspect is rated twice")
        mean = sum(rating.stars for rating in self.ratings) / len(self.ratings)
        if abs(self.overall - mean) >= 1:
            raise ValueError("the overall rating is not the mean of the ratings")
        return self
