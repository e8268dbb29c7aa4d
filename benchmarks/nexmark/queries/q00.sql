-- Pass through
select auction, bidder, price, dateTime, extra from bid
